"""Content of banks that are searched: chunks of texts, with vectors in a bank that has a model for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk, GivenDocument
from turnstone.domain.memory.texts.chunking import MARKDOWN, document_chunks
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation
from turnstone.services.memory.documents.document_records import (
    DocumentRecords,
    until_written,
    with_content,
    writes_of,
)
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import CHUNKS_AT_ONCE, Folding, Records, is_due, is_large
from turnstone.services.memory.indexes import Indexes
from turnstone.store.memory.contents import BankChange, within_limits
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
    def change(self) -> BankChange:
        new = self.given.given.new
        return BankChange(new.document_id, self.chunks or None, new.attributes)


class ChunkContent:
    def __init__(self, deps: ChunkContentDeps) -> None:
        self._deps = deps

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store the chunks of each document. Raises InvalidRequest if the bank is full, and ModelError."""
        chunked = [_chunked(bank, each) for each in given]
        self.check_room(ref, sum(len(each.chunks) for each in chunked))
        last = None
        for some in _groups(self._embedded(caller, bank, chunked, provider_data)):
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

    def _insert_at_once(self, ref: BankRef, chunked: Sequence[ChunkedText], last: str | None) -> str | None:
        """Store these documents as a segment, all or none; return the newest order key, above `last`."""
        newest = last

        def records() -> Sequence[Operation]:
            nonlocal newest
            operations, newest = self._records_of(ref, chunked, last)
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
                operations, newest = self._records_of(ref, group, last)
                contents.write(ref, [*operations, *some])
                return newest

            last = until_written(act, on=(Conflict,))
        self._fold(ref, [each.change for each in chunked])
        return last

    def _records_of(
        self, ref: BankRef, chunked: Sequence[ChunkedText], last: str | None
    ) -> tuple[list[Operation], str | None]:
        """Return the writes of the documents' records, as they are now, and the newest order key, above `last`."""
        records = self._deps.records
        before = records.found(ref, [each.change.document_id for each in chunked])
        operations: list[Operation] = []
        for given, chunks in chunked:
            found = before.get(given.given.new.document_id)
            document = with_content(records.begun(found, given.given.new), len(chunks), given.digest)
            stored = records.stored(found, document, last)
            operations += writes_of(ref, stored, found)
            last = last if found else stored.order
        return operations, last

    def _fold(self, ref: BankRef, changes: Sequence[BankChange]) -> None:
        if is_due([each.document_id for each in changes], sum(each.size for each in changes)):
            self._deps.folding.fold(ref)


def _chunked(bank: Bank, given: GivenDocument) -> ChunkedText:
    new, text = given.given.new, given.given.text
    mime_type = MARKDOWN[0] if given.given.has_headings else new.mime_type
    chunks = document_chunks(new.document_id, text, new.chunking or bank.chunking, mime_type)
    return ChunkedText(given, chunks)


def _groups(chunked: Sequence[ChunkedText]) -> Iterator[list[ChunkedText]]:
    """Yield as many documents at a time as one write takes, one at least."""
    some: list[ChunkedText] = []
    size = 0
    for each in chunked:
        if some and (len(some) == WRITTEN_AT_ONCE or size + each.change.size > CHUNKS_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(each)
        size += each.change.size
    if some:
        yield some
