"""Content of banks whose chunks a provider stores: each document's insertion there, and which of them counts.

Chunks are stored first, under a new insertion, and count with the write of their document's record. So a crash between
both leaves content that no search shows, which a job removes, and the same request inserts it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, ContentLost, MemoryProviderError, NotFound, StoreUnavailable
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk, GivenDocument
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.memory_providers import BankProvider, BankProviders, Insertion, InsertionRef
from turnstone.ports.records import Operation
from turnstone.services.memory.documents.document_records import DocumentRecords, Records, until_written
from turnstone.services.memory.documents.text_chunks import (
    chunked_text,
    completed_records,
    groups_of,
    with_vectors,
)
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.store.memory.contents import BankChange, SegmentGone
from turnstone.store.memory.documents import StoredDocument
from turnstone.store.memory.provided import (
    Batch,
    CurrentInsertion,
    InsertionChange,
    ProvidedStore,
    beginning,
    is_taken,
    listing,
    new_batch,
)

log = logging.getLogger(__name__)
LISTED_AT_ONCE = 90
TOO_SLOW = "the memory provider took so long that the content was given up, try again"


@dataclass(frozen=True, slots=True)
class ProvidedContentDeps:
    records: DocumentRecords
    store: ProvidedStore
    providers: BankProviders
    embedding: BankEmbedding


class ProvidedContent:
    """The content of one provider's banks.

    Each method that stores or reads chunks raises MemoryProviderError, and changes no result of a search.
    """

    def __init__(self, deps: ProvidedContentDeps, provider_id: str) -> None:
        self._deps = deps
        self._provider_id = provider_id

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store the chunks of each document. Raises InvalidRequest for a limit of the provider, and ModelError."""
        provider, chunked = self._provider, [chunked_text(bank, each) for each in given]
        for each in chunked:
            provider.refuse_insertion(_insertion("", each.change))
        last: str | None = None
        for some in groups_of(with_vectors(self._deps.embedding, caller, bank, chunked, provider_data)):
            newest = last

            def records(some: Any = some, last: str | None = last) -> Sequence[Operation]:
                nonlocal newest
                operations, newest = completed_records(self._deps.records, ref, some, last)
                return operations

            self._replace(ref, [each.change for each in some], records)
            last = newest

    def insert_chunks(self, ref: BankRef, changes: Sequence[BankChange]) -> None:
        """Store chunks without documents, some at a time. Raises InvalidRequest for a limit of the provider."""
        for each in changes:
            self._provider.refuse_insertion(_insertion("", each))
        for begin in range(0, len(changes), LISTED_AT_ONCE):
            self._replace(ref, changes[begin : begin + LISTED_AT_ONCE], lambda: ())

    def check_room(self, ref: BankRef, added: int) -> None:
        """Return: a provider's bank has no limit of its own."""

    def store(self, ref: BankRef, change: BankChange, records: Records) -> None:
        self._provider.refuse_insertion(_insertion("", change))
        self._replace(ref, [change], records)

    def drop(self, ref: BankRef, stored: StoredDocument, records: Records) -> None:
        """Hide the document, and remove its chunks now or, if the provider fails, later."""
        nothing = Insertion("", stored.document.document_id, (), {})
        self._remove(ref, self._listed_with(ref, [nothing], records, None))

    def rewrite(self, ref: BankRef, stored: StoredDocument, attributes: Mapping[str, Any], records: Records) -> None:
        chunks = self.chunks(ref, stored)
        self.store(ref, BankChange(stored.document.document_id, chunks, attributes), records)

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        """Return the chunks that count. Raises SegmentGone if they were replaced, ContentLost if some are missing."""
        document_id = stored.document.document_id
        listed = self._listed(ref, document_id)
        if listed is None:
            return ()
        found = self._provider.chunks(ref, listed.insertion)
        if len(found) < listed.insertion.chunks:
            if self._listed(ref, document_id) != listed:
                raise SegmentGone
            raise ContentLost("memory bank", ref.bank_id)
        return found

    def _replace(self, ref: BankRef, changes: Sequence[BankChange], records: Records) -> None:
        """Store the changes, and make them count with the writes of their records."""
        insertions = [_insertion(self._deps.records.ids.new_id(), each) for each in changes]
        with_chunks = [each for each in insertions if each.chunks]
        begun = self._begun(ref, with_chunks) if with_chunks else None
        batch = until_written(lambda: self._listed_with(ref, insertions, records, begun), on=(Conflict,))
        self._remove(ref, batch)

    def _begun(self, ref: BankRef, insertions: Sequence[Insertion]) -> Batch:
        batch = self._batch(ref, [each.ref for each in insertions])
        self._deps.records.contents.write(ref, beginning(ref, batch))
        self._provider.put(ref, insertions)
        return batch

    def _listed_with(
        self, ref: BankRef, insertions: Sequence[Insertion], records: Records, begun: Batch | None
    ) -> Batch:
        """Make the insertions count, those without chunks as none; return those that counted before.

        Args:
            begun: the insertions as they were stored, None for nothing stored.
        """
        before = self._deps.store.listed(ref, [each.document_id for each in insertions])
        changes = [
            InsertionChange(each.document_id, each.ref if each.chunks else None, before.get(each.document_id))
            for each in insertions
        ]
        batch = begun or self._batch(ref, ())
        batch = batch._replace(insertions=tuple(each.insertion for each in before.values()))
        now = self._deps.records.clock.now()
        writes = [*records(), *listing(ref, batch, changes, now, is_begun=begun is not None)]
        try:
            self._deps.records.contents.write(ref, writes)
        except (Conflict, NotFound) as problem:
            if begun is not None and (isinstance(problem, NotFound) or is_taken(ref, batch, problem)):
                self._remove_begun(ref, begun)
            raise
        return batch

    def _remove_begun(self, ref: BankRef, begun: Batch) -> None:
        """Remove stored insertions, whose clean-up may have come before them. Raises StoreUnavailable or NotFound."""
        try:
            self._deps.records.contents.manifest(ref)
        except NotFound:
            with suppress(MemoryProviderError):
                self._provider.remove(ref)
            raise
        with suppress(MemoryProviderError):
            self._provider.drop(ref, begun.insertions)
        raise StoreUnavailable(TOO_SLOW)

    def _remove(self, ref: BankRef, batch: Batch) -> None:
        """Remove the insertions that counted before, at once if possible: their job does it otherwise."""
        if not batch.insertions:
            return
        try:
            self._provider.drop(ref, batch.insertions)
            self._deps.store.end(ref, batch)
        except (MemoryProviderError, StoreUnavailable) as failed:
            log.info("replaced content of a memory bank is removed later: %s", failed)

    def _batch(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> Batch:
        records = self._deps.records
        return new_batch(ref, records.ids.new_id(), self._provider_id, insertions, records.clock.now())

    def _listed(self, ref: BankRef, document_id: str) -> CurrentInsertion | None:
        return self._deps.store.listed(ref, [document_id]).get(document_id)

    @property
    def _provider(self) -> BankProvider:
        return self._deps.providers.of(self._provider_id)


def _insertion(insertion_id: str, change: BankChange) -> Insertion:
    return Insertion(insertion_id, change.document_id, change.chunks or (), change.attributes)
