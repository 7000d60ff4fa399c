"""Documents of a request, cut into chunks with their vectors, and the writes of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk, GivenDocument
from turnstone.domain.memory.texts.chunking import MARKDOWN, document_chunks
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation
from turnstone.services.memory.documents.document_records import DocumentRecords, with_content, writes_of
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import CHUNKS_AT_ONCE
from turnstone.store.memory.contents import BankChange

WRITTEN_AT_ONCE = 24


class ChunkedText(NamedTuple):
    """A document of a request, cut into chunks."""

    given: GivenDocument
    chunks: tuple[DocumentChunk, ...]

    @property
    def change(self) -> BankChange:
        new = self.given.given.new
        return BankChange(new.document_id, self.chunks or None, new.attributes)


def chunked_text(bank: Bank, given: GivenDocument) -> ChunkedText:
    """Return the document in chunks of its own length, or its bank's."""
    new, text = given.given.new, given.given.text
    mime_type = MARKDOWN[0] if given.given.has_headings else new.mime_type
    chunks = document_chunks(new.document_id, text, new.chunking or bank.chunking, mime_type)
    return ChunkedText(given, chunks)


def with_vectors(
    embedding: BankEmbedding,
    caller: Caller,
    bank: Bank,
    chunked: Sequence[ChunkedText],
    provider_data: ProviderData,
) -> Sequence[ChunkedText]:
    """Return the documents with the vectors of their chunks, in a bank that has a model for them. Raises ModelError."""
    if bank.space is None:
        return chunked
    texts = [chunk.text for each in chunked for chunk in each.chunks]
    vectors = iter(embedding.vectors(caller, bank.space, texts, provider_data))
    return [
        each._replace(chunks=tuple(chunk._replace(vector=next(vectors)) for chunk in each.chunks)) for each in chunked
    ]


def groups_of(chunked: Sequence[ChunkedText]) -> Iterator[list[ChunkedText]]:
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


def completed_records(
    records: DocumentRecords, ref: BankRef, chunked: Sequence[ChunkedText], last: str | None
) -> tuple[list[Operation], str | None]:
    """Return the writes of the documents' records, as they are now, and the newest order key, above `last`."""
    before = records.found(ref, [each.change.document_id for each in chunked])
    operations: list[Operation] = []
    for given, chunks in chunked:
        found = before.get(given.given.new.document_id)
        document = with_content(records.begun(found, given.given.new), len(chunks), given.digest)
        stored = records.stored(found, document, last)
        operations += writes_of(ref, stored, found)
        last = last if found else stored.order
    return operations, last
