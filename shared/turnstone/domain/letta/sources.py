"""Sources of Letta's API: memory banks of uploaded files, whose passages agents search. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.files.stored_files import MOST_NAME_CHARACTERS
from turnstone.domain.memory.banks import SOURCE_PREFIX
from turnstone.domain.memory.documents import Document
from turnstone.domain.values.frozen import Frozen, JsonObject

MOST_SOURCES = 20  # of an agent: each search reads them all
MOST_EXTENSION = 16
JOB_KIND = "job"


def source_id_in(text: str) -> str:
    """Return the id of the source in one of the API, which may lack the kind."""
    return text if text.startswith(SOURCE_PREFIX) else f"{SOURCE_PREFIX}{text}"


def job_order_in(text: str) -> str:
    """Return the position of a job in the list, by its id, which may lack the kind."""
    return text.removeprefix(f"{JOB_KIND}-")


def stored_name(filename: str, suffix: str) -> str:
    """Return the name that lists show of an uploaded file: its own, without folders, and 32 hexadecimal digits."""
    name = filename.rpartition("/")[2].rpartition("\\")[2]
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > MOST_EXTENSION:
        stem, dot, extension = name, "", ""
    digits = suffix.replace("-", "")
    room = MOST_NAME_CHARACTERS - len(digits) - len(dot) - len(extension) - 1
    return f"{stem[:room]}_{digits}{dot}{extension}"


def sent_name(stored: str) -> str:
    """Return the name of an uploaded file without the digits of `stored_name`."""
    return re.sub(r"_[0-9a-f]{32}(?=(\.[^.]*)?$)", "", stored)


class NewSource(NamedTuple):
    """A source to create."""

    name: str
    description: str | None
    metadata: JsonObject
    embedding_config: JsonObject | None


class NewSourceFile(NamedTuple):
    """A file to upload; `parts` are its content, in parts of any size."""

    filename: str
    media_type: str
    parts: Iterable[bytes]


class SourceChanges(NamedTuple):
    """Changes of a source: those of its bank, and those of the fields that the bank lacks."""

    of_bank: dict[str, Any]
    of_fields: dict[str, Any]


class SourceQuery(NamedTuple):
    """The requested part of the sources, or of the files of one, after the one of that id."""

    limit: int
    after: str | None = None


class JobQuery(NamedTuple):
    """The requested jobs: the newest ones, of one source or of all."""

    limit: int
    source_id: str | None = None
    is_active: bool = False


class ListedJob(Frozen):
    """The insertion of an uploaded file, in the list of its tenant. The document of the file has its state.

    Attributes:
        order: its position in the list; the file has the same one in its id.
        ends_at: when it leaves the list.
    """

    order: str
    source_id: str
    file_id: str
    created_at: datetime
    ends_at: datetime
    stamp: Ownership


class LettaJob(NamedTuple):
    """A job as it is now.

    Attributes:
        is_seen: whether the caller may see its content; one that may only delete it may not.
    """

    listed: ListedJob
    document: Document
    is_seen: bool = True
