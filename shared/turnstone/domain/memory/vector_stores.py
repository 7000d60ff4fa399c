"""Vector stores: banks of vectors whose documents are files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from turnstone.domain.memory.banks import Bank, Chunking
from turnstone.domain.memory.documents import DocumentStatus
from turnstone.domain.memory.insertions import CHUNK_NAME
from turnstone.domain.memory.questions import Hit
from turnstone.domain.values.frozen import Frozen
from turnstone.domain.values.ids import milliseconds, uuid7_milliseconds

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
STORE_PREFIX, BATCH_PREFIX = "vs_", "vsfb_"
STORE_ID, BATCH_ID = STORE_PREFIX + UUID, BATCH_PREFIX + UUID
# Source: the strategy `auto` in OpenAI's API reference
AUTO = Chunking(tokens=800, overlap=400)
MOST_IN_BATCH = 500
Position = TypeVar("Position", int, tuple[int, str])
Entry = TypeVar("Entry")


class FileCounts(NamedTuple):
    """Numbers of files by their status, and the bytes of those found.

    Attributes:
        size_bytes: of the files with content in searches, as they were sent.
    """

    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    size_bytes: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed + self.cancelled


class StoreState(NamedTuple):
    """A vector store as it is now.

    Attributes:
        used_at: the time of the last recorded use, None for no use since the creation.
        ends_at: the time from which the store is gone unless it is used; None for never.
    """

    bank: Bank
    counts: FileCounts
    used_at: datetime | None
    ends_at: datetime | None


class FileBatch(Frozen):
    """Files that were added by one request, each once, in its order."""

    batch_id: str
    created_at: datetime
    file_ids: tuple[str, ...]


class PagedEntries(NamedTuple):
    """The requested part of a list.

    Attributes:
        after: the id to continue after, in the requested order; None for its beginning.
        before: the id to end before. Without `after`, the page has the entries directly before it.
        status: only files of that one.
    """

    limit: int
    after: str | None = None
    before: str | None = None
    is_newest_first: bool = True
    status: DocumentStatus | None = None


class StorePage(NamedTuple):
    """Some vector stores in the requested order, and whether more follow, or precede a page before an id."""

    stores: tuple[StoreState, ...]
    has_more: bool


class StoreHit(NamedTuple):
    """A found chunk with its file: the document's id and the name of the file, which is the id without one."""

    hit: Hit
    file_id: str
    filename: str


def file_of(hit: Hit) -> str:
    """Return the id of the file of a found chunk; of a chunk that was inserted alone, that in its metadata."""
    document_id = hit.chunk.document_id
    named = hit.chunk.metadata.get("document_id")
    return named if document_id.startswith(CHUNK_NAME) and isinstance(named, str) else document_id


def counts_of(documents: Iterable[tuple[DocumentStatus, int]]) -> FileCounts:
    """Return the counts of documents, given by their status and the bytes of them that searches find."""
    counts = {"in_progress": 0, "completed": 0, "failed": 0, "cancelled": 0}
    size_bytes = 0
    for status, each_bytes in documents:
        counts[status] += 1
        size_bytes += each_bytes
    return FileCounts(**counts, size_bytes=size_bytes)


def batch_status(counts: FileCounts) -> DocumentStatus:
    """Return the status of a batch with these files."""
    if counts.in_progress:
        return "in_progress"
    if counts.cancelled:
        return "cancelled"
    return "failed" if counts.failed and counts.failed == counts.total else "completed"


def position_of(bank: Bank) -> tuple[int, str]:
    """Return the position of a store in lists: by the millisecond of its creation, then by its id."""
    return position_named(bank.bank_id) or (milliseconds(bank.created_at), bank.bank_id)


def position_named(store_id: str) -> tuple[int, str] | None:
    """Return the position of a store, gone or not, by its id; None for an id that its creator chose."""
    if not re.fullmatch(STORE_ID, store_id):
        return None
    return uuid7_milliseconds(store_id.removeprefix(STORE_PREFIX)), store_id


def paged(
    entries: Sequence[tuple[Position, Entry]], query: PagedEntries, after: Position | None, before: Position | None
) -> tuple[tuple[Entry, ...], bool]:
    """Return the entries of a page, and whether more follow, or precede a page that ends before an id.

    Args:
        entries: with their positions, ascending.
        after: the position of `query.after`, which need not be an entry's; None for none.
        before: that of `query.before`.
    """
    first, last = (before, after) if query.is_newest_first else (after, before)
    kept = [
        entry
        for position, entry in entries
        if (first is None or position > first) and (last is None or position < last)
    ]
    if query.is_newest_first:
        kept.reverse()
    is_at_end = before is not None and after is None
    page = kept[-query.limit :] if is_at_end else kept[: query.limit]
    return tuple(page), len(kept) > query.limit
