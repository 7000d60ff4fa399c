"""Content of banks that are searched: chunks of texts, with vectors in a bank that has a model for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.chunking import document_chunks
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation, Put
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import Folding, check_room, is_due
from turnstone.services.memory.indexes import Indexes
from turnstone.services.memory.kinds.document_records import (
    DocumentRecords,
    GivenDocument,
    until_written,
    with_content,
    writes_of,
)
from turnstone.store.memory.contents import BankChange, put_change, within_limits
from turnstone.store.memory.documents import StoredDocument

WRITTEN_AT_ONCE = 24


@dataclass(frozen=True, slots=True)
class ChunkContentDeps:
    records: DocumentRecords
    folding: Folding
    indexes: Indexes
    embedding: BankEmbedding


class ChunkedText(NamedTuple):
    """A document of a request, cut into chunks."""

    given: GivenDocument
    chunks: tuple[DocumentChunk, ...]

    @property
    def document_id(self) -> str:
        return self.given.given.new.document_id


class ChunkContent:
    def __init__(self, deps: ChunkContentDeps) -> None:
        self._deps = deps

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store the chunks of each document. Raises InvalidRequest if the bank is full, and ModelError."""
        chunked = [_chunked(bank, each) for each in given]
        check_room(self._deps.records.contents, ref, sum(len(each.chunks) for each in chunked), "documents")
        embedded = self._embedded(caller, bank, chunked, provider_data)
        puts = [self.put(ref, each.document_id, each.chunks, each.given.given.new.attributes) for each in embedded]
        following, last = iter(embedded), None
        for some in within_limits(puts, WRITTEN_AT_ONCE):
            last = self._replace(ref, [next(following) for _ in some], some, last)

    def put(
        self, ref: BankRef, document_id: str, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Any]
    ) -> Put:
        """Return the write of a document's content, of none without chunks."""
        change = BankChange(document_id, tuple(chunks) or None, attributes)
        return put_change(ref, change, self._deps.records.ids.new_id())

    def fold(self, ref: BankRef, changed: Mapping[str, int]) -> None:
        """Fold the log if it may be long, after changes of these documents with their numbers of chunks."""
        if is_due(list(changed), sum(changed.values())):
            self._deps.folding.fold(ref)

    def removal(self, ref: BankRef, stored: StoredDocument) -> list[Operation]:
        return [self.put(ref, stored.document.document_id, (), {})]

    def with_attributes(self, ref: BankRef, stored: StoredDocument, attributes: Mapping[str, Any]) -> list[Operation]:
        return [self.put(ref, stored.document.document_id, self.chunks(ref, stored), attributes)]

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        view = self._deps.records.contents.view(ref)
        return self._deps.indexes.chunks_of(ref, view, stored.document.document_id)

    def _embedded(
        self, caller: Caller, bank: Bank, chunked: Sequence[ChunkedText], provider_data: ProviderData
    ) -> Sequence[ChunkedText]:
        """Return the documents with the vectors of their chunks. Raises ModelError."""
        if bank.space is None:
            return chunked
        texts = [chunk.text for each in chunked for chunk in each.chunks]
        vectors = iter(self._deps.embedding.vectors(caller, bank.space, texts, provider_data))
        return [
            each._replace(chunks=tuple(chunk._replace(vector=next(vectors)) for chunk in each.chunks))
            for each in chunked
        ]

    def _replace(
        self, ref: BankRef, chunked: Sequence[ChunkedText], puts: Sequence[Put], last: str | None
    ) -> str | None:
        """Store these documents with their content, all or none; return the newest order key, above `last`."""
        records = self._deps.records

        def act() -> str | None:
            before = records.found(ref, [each.document_id for each in chunked])
            operations: list[Operation] = [*puts]
            order = last
            for each in chunked:
                found = before.get(each.document_id)
                begun = records.begun(found, each.given.given.new)
                stored = records.stored(found, with_content(begun, len(each.chunks), each.given.digest), order)
                operations += writes_of(ref, stored, found)
                order = order if found else stored.order
            records.contents.write(ref, operations)
            return order

        order = until_written(act, on=(Conflict,))
        self.fold(ref, {each.document_id: len(each.chunks) for each in chunked})
        return order


def _chunked(bank: Bank, given: GivenDocument) -> ChunkedText:
    new, text = given.given.new, given.given.text
    chunks = document_chunks(new.document_id, text, new.chunking or bank.chunking, new.mime_type)
    return ChunkedText(given, chunks)
