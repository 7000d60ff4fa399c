"""Content of banks that are searched: chunks of texts, with vectors in a bank that has a model for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk, GivenDocument
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation
from turnstone.services.memory.documents.document_records import DocumentRecords, until_written
from turnstone.services.memory.documents.text_chunks import (
    ChunkedText,
    chunked_text,
    completed_records,
    groups_of,
    with_vectors,
)
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import Folding, Records, is_due, is_large
from turnstone.services.memory.indexes import Indexes
from turnstone.store.memory.contents import BankChange, within_limits
from turnstone.store.memory.documents import StoredDocument


@dataclass(frozen=True, slots=True)
class ChunkContentDeps:
    records: DocumentRecords
    folding: Folding
    indexes: Indexes
    embedding: BankEmbedding


class ChunkContent:
    def __init__(self, deps: ChunkContentDeps) -> None:
        self._deps = deps

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store the chunks of each document. Raises InvalidRequest if the bank is full, and ModelError."""
        chunked = [chunked_text(bank, each) for each in given]
        self.check_room(ref, sum(len(each.chunks) for each in chunked))
        last = None
        for some in groups_of(with_vectors(self._deps.embedding, caller, bank, chunked, provider_data)):
            if is_large([each.change for each in some]):
                last = self._insert_at_once(ref, some, last)
            else:
                last = self._insert_into_log(ref, some, last)

    def check_room(self, ref: BankRef, added: int) -> None:
        """Raise InvalidRequest if the bank has no room for that many more chunks."""
        self._deps.folding.check_room(ref, added, "documents")

    def store(self, ref: BankRef, change: BankChange, records: Records) -> None:
        """Store the content of a document, with the writes of its record, or neither.

        Args:
            records: called before each try, of which there may be several.

        Raises:
            Conflict: a condition of those writes does not hold.
        """
        if is_large([change]):
            self._deps.folding.store_at_once(ref, [change], records)
            return
        contents, version = self._deps.records.contents, self._deps.records.ids.new_id()
        contents.write(ref, [*records(), contents.put_change(ref, change, version)])
        self._fold(ref, [change])

    def drop(self, ref: BankRef, stored: StoredDocument, records: Records) -> None:
        self.store(ref, BankChange(stored.document.document_id, None), records)

    def rewrite(self, ref: BankRef, stored: StoredDocument, attributes: Mapping[str, Any], records: Records) -> None:
        change = BankChange(stored.document.document_id, self.chunks(ref, stored) or None, attributes)
        self.store(ref, change, records)

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        view = self._deps.records.contents.view(ref)
        return self._deps.indexes.chunks_of(ref, view, stored.document.document_id)

    def _insert_at_once(self, ref: BankRef, chunked: Sequence[ChunkedText], last: str | None) -> str | None:
        """Store these documents as a segment, all or none; return the newest order key, above `last`."""
        newest = last

        def records() -> Sequence[Operation]:
            nonlocal newest
            operations, newest = completed_records(self._deps.records, ref, chunked, last)
            return operations

        self._deps.folding.store_at_once(ref, [each.change for each in chunked], records)
        return newest

    def _insert_into_log(self, ref: BankRef, chunked: Sequence[ChunkedText], last: str | None) -> str | None:
        """Store these documents in the log, some at a time; return the newest order key, above `last`."""
        contents, ids = self._deps.records.contents, self._deps.records.ids
        puts = [contents.put_change(ref, each.change, ids.new_id()) for each in chunked]
        following = iter(chunked)
        for some in within_limits(puts):
            group, newest = [next(following) for _ in some], last

            def act(some: Sequence[Operation] = some, group: Sequence[ChunkedText] = group, last: Any = newest) -> Any:
                operations, newest = completed_records(self._deps.records, ref, group, last)
                contents.write(ref, [*operations, *some])
                return newest

            last = until_written(act, on=(Conflict,))
        self._fold(ref, [each.change for each in chunked])
        return last

    def _fold(self, ref: BankRef, changes: Sequence[BankChange]) -> None:
        if is_due([each.document_id for each in changes], sum(each.size for each in changes)):
            self._deps.folding.fold(ref)
