"""Pages of vector stores and their files: the query of a page, which may end before an entry, and its ids.

Source: the API reference of OpenAI, whose lists of vector stores have `before` and `filter`.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from turnstone.dialects.openai.pages import PageRule, Query, only_value
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.documents import DocumentQuery
from turnstone.domain.memory.vector_stores import PagedEntries

USUAL, MOST = 20, 100
STATUSES = ("in_progress", "completed", "failed", "cancelled")
EXAMPLE_STORE_ID = "vs_01990000-0000-7000-8000-000000000000"
EXAMPLE_FILE_ID = "file-01990000-0000-7000-8000-000000000000"
# ids that clients of other APIs chose for banks and documents are entries, too
LONGEST_ID = 512
ANY_ID = rf".{{1,{LONGEST_ID}}}"
STORE_PAGES = PageRule("vector store", ANY_ID, EXAMPLE_STORE_ID, "desc", USUAL, MOST, is_cut=False)
FILE_PAGES = STORE_PAGES._replace(of="file", example=EXAMPLE_FILE_ID)


def _with_before(pages: PageRule) -> dict[str, dict[str, Any]]:
    query = pages.query
    return {**query, "before": {**query["after"], "description": f"End before the {pages.of} of this id."}}


STORES_QUERY = _with_before(STORE_PAGES)
FILES_QUERY = {
    **_with_before(FILE_PAGES),
    "filter": {"description": "Only files of this status.", "schema": {"enum": [*STATUSES, ""]}},
}


class Identified(Protocol):
    @property
    def id(self) -> str: ...


Listed = TypeVar("Listed", bound=Identified)


def stores_in_query(query: Query) -> PagedEntries:
    """Return the requested part of the list of vector stores. Raises InvalidRequest."""
    return _entries(query, STORE_PAGES)


def files_in_store_query(query: Query) -> PagedEntries:
    """Return the requested part of a list of a vector store's files. Raises InvalidRequest."""
    status = only_value(query, "filter")
    if status is not None and status not in STATUSES:
        raise InvalidRequest(f"filter: must be one of {', '.join(STATUSES)}", ("query", "filter"))
    return _entries(query, FILE_PAGES)._replace(status=status)  # type: ignore[arg-type] # one of them


def documents_query(query: PagedEntries) -> DocumentQuery:
    """Return the query as one of a bank's documents."""
    return DocumentQuery(query.limit, query.after, query.is_newest_first, query.status, query.before)


def end_ids(entries: Sequence[Listed]) -> dict[str, str]:
    """Return the ids at the ends of a page, empty without entries."""
    return {"first_id": entries[0].id if entries else "", "last_id": entries[-1].id if entries else ""}


def _entries(query: Query, pages: PageRule) -> PagedEntries:
    ids = {name: only_value(query, name) for name in ("after", "before")}
    for name, value in ids.items():
        if value is not None and not re.fullmatch(ANY_ID, value):
            raise InvalidRequest(f"{name}: must be an id of {LONGEST_ID} characters at most", ("query", name))
    return PagedEntries(pages.limit(query), ids["after"], ids["before"], pages.is_newest_first(query))
