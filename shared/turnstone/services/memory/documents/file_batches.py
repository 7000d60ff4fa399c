"""Batches of files that one request adds to a vector store: their counts, their list, their cancellation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import Document, DocumentPage, NewDocument
from turnstone.domain.memory.vector_stores import BATCH_PREFIX, FileBatch, FileCounts, PagedEntries, counts_of, paged
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import DocumentRecords
from turnstone.services.memory.documents.documents import Documents
from turnstone.store.memory.file_batches import FileBatchStore

AddFiles = Callable[[Caller, str, Sequence[NewDocument], Attempt], tuple[Document, ...]]


@dataclass(frozen=True, slots=True)
class FileBatchDeps:
    """Dependencies of batches. `add_files` has files inserted into a store."""

    banks: Banks
    documents: Documents
    records: DocumentRecords
    store: FileBatchStore
    add_files: AddFiles


class BatchState(NamedTuple):
    """A batch, and the counts of its files that the store still has."""

    batch: FileBatch
    counts: FileCounts


class FileBatches:
    def __init__(self, deps: FileBatchDeps) -> None:
        self._deps = deps

    def create(self, caller: Caller, store_id: str, news: Sequence[NewDocument], attempt: Attempt) -> BatchState:
        """Have files inserted, of several of one id the last; return the batch, or that of an earlier attempt.

        Raises:
            NotFound: no such store or file; none is inserted.
            IdempotencyMismatch: the request's key was used for another body.
        """
        ref, now = self._ref(caller, store_id), self._deps.records.clock.now()
        before = self._deps.store.remembered(ref, attempt, now)
        if before is not None:
            return self._state(ref, before)
        newest = {new.document_id: new for new in news}
        self._deps.add_files(caller, store_id, list(newest.values()), attempt)
        batch_id = BATCH_PREFIX + self._deps.records.ids.order_key(now, None)
        batch = FileBatch(batch_id=batch_id, created_at=now, file_ids=tuple(newest))
        return self._state(ref, self._deps.store.create(ref, batch, attempt))

    def get(self, caller: Caller, store_id: str, batch_id: str) -> BatchState:
        """Return the batch. Raises NotFound."""
        ref = self._ref(caller, store_id)
        return self._state(ref, self._deps.store.get(ref, batch_id))

    def cancel(self, caller: Caller, store_id: str, batch_id: str) -> BatchState:
        """Cancel the insertions that are in progress; return the batch. Raises NotFound."""
        ref = self._ref(caller, store_id)
        batch = self._deps.store.get(ref, batch_id)
        self._deps.documents.cancel_all(caller, store_id, batch.file_ids, "vector")
        return self._state(ref, batch)

    def files(self, caller: Caller, store_id: str, batch_id: str, query: PagedEntries) -> DocumentPage:
        """Return the part of the batch's files, in the order of its request.

        Raises:
            NotFound: no such store or batch.
            InvalidRequest: the batch has no file `query.after` or `query.before`.
        """
        ref = self._ref(caller, store_id)
        batch = self._deps.store.get(ref, batch_id)
        after, before = _index(batch, "after", query.after), _index(batch, "before", query.before)
        found = self._deps.records.found(ref, batch.file_ids)
        entries = [
            (index, found[file_id].document)
            for index, file_id in enumerate(batch.file_ids)
            if file_id in found and query.status in (None, found[file_id].document.status)
        ]
        return DocumentPage(*paged(entries, query, after, before))

    def _ref(self, caller: Caller, store_id: str) -> BankRef:
        return BankRef(caller.tenant, self._deps.banks.visible(caller, store_id, "vector").content_id, store_id)

    def _state(self, ref: BankRef, batch: FileBatch) -> BatchState:
        found = self._deps.records.found(ref, batch.file_ids).values()
        return BatchState(batch, counts_of((each.document.status, each.document.size_bytes) for each in found))


def _index(batch: FileBatch, name: str, file_id: str | None) -> int | None:
    """Return the position of a file in the batch, also of one that the store has no more. Raises InvalidRequest."""
    if file_id is None:
        return None
    if file_id not in batch.file_ids:
        raise InvalidRequest(f"{name}: the batch has no file {file_id!r}", ("query", name))
    return batch.file_ids.index(file_id)
