"""Ids that clients choose for memory banks and documents: each is usable in every path that names it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from turnstone.domain.registry.registry import Identifier

RESERVED = frozenset("/?#%\\")


def _refuse_reserved(bank_id: str) -> str:
    """Return the id. Raises ValueError if a client that writes it into a path as it is requests another one."""
    if found := sorted(RESERVED & set(bank_id)):
        raise ValueError(f"an id of a memory bank must not have any of / ? # % \\, this one has {' '.join(found)}")
    return bank_id


def _refuse_lost(document_id: str) -> str:
    """Return the id. Raises ValueError if clients or proxies change it at the end of a path.

    Slashes are usual: ids of documents are often addresses or paths of files.
    """
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in document_id):
        raise ValueError("an id of a document must not have control characters, such as line ends")
    if {".", ".."} & set(document_id.split("/")):
        raise ValueError("an id of a document must not have parts of dots alone around its slashes")
    return document_id


BankId = Annotated[Identifier, AfterValidator(_refuse_reserved)]
DocumentId = Annotated[str, Field(min_length=1, max_length=1_024), AfterValidator(_refuse_lost)]
