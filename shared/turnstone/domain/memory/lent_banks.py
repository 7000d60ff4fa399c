"""Memory banks that a turn may read: each is lent by its namers, and read if one of them may see it.

A namer is the creator of the agent, the session or the request that names the bank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import InvalidRequest

if TYPE_CHECKING:  # each turn has lent banks, and few have any
    from turnstone.domain.memory.banks import BankKind

RAG = "builtin::rag"
FILE_SEARCH = "builtin::file_search"
SEARCHES = (RAG, FILE_SEARCH)
RAG_SEARCH = "knowledge_search"
RAG_INSERT = "insert_into_memory"
BANK_ARGUMENTS = ("vector_db_ids", "vector_store_ids")
Location = tuple[str | int, ...]


class NamedBank(NamedTuple):
    """A bank that an agent, a session or a request names.

    Attributes:
        by: the owner and access list of the agent, the session or the request: the identity of its creator.
        location: the field that names it.
        kind: the kind that the field requires, None for any.
        is_optional: whether the bank may be missing: it is made with its first text.
    """

    bank_id: str
    by: Ownership
    location: Location
    kind: BankKind | None = None
    is_optional: bool = False


class LentBanks(NamedTuple):
    """The banks that a turn may read.

    Attributes:
        of_session: ids of the session's banks, which each search of the turn includes.
    """

    named: tuple[NamedBank, ...] = ()
    of_session: tuple[str, ...] = ()


NO_BANKS = LentBanks()


def bank_of_session(session_id: str) -> str:
    """Return the name of the bank that a session makes for its texts."""
    return f"session-{session_id}"


def archive_of(agent_id: str) -> str:
    """Return the name of the bank of an agent's archival memory."""
    return f"archive-{agent_id}"


def banks_in_call(arguments: Mapping[str, Any], by: Ownership) -> LentBanks:
    """Return the banks that a call outside turns may read: those that its caller names. Raises as below."""
    return LentBanks(tuple(NamedBank(bank_id, by, (name,)) for name, bank_id in banks_in_arguments(arguments)))


def banks_in_arguments(arguments: Mapping[str, Any], location: Location = ()) -> Iterator[tuple[str, str]]:
    """Yield arguments of `builtin::rag` and the banks that they name. Raises InvalidRequest for others than names."""
    for name in BANK_ARGUMENTS:
        given = arguments.get(name)
        ids = [given] if isinstance(given, str) else given or ()
        if not isinstance(ids, list | tuple) or not all(isinstance(each, str) and each for each in ids):
            where = (*location, name)
            raise InvalidRequest(f"{'.'.join(map(str, where))}: must be a list of names of vector databases", where)
        yield from ((name, each) for each in ids)
