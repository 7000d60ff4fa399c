"""The services of memory banks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.adapters.fetching.fetcher import GuardedFetcher
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.models import ModelServices
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.domain.memory.banks import BankKind
    from turnstone.domain.memory.documents import SourceBody
    from turnstone.ports.extracting import Extractor
    from turnstone.services.memory.banks import Banks
    from turnstone.services.memory.documents.document_records import DocumentRecords, KindContent
    from turnstone.services.memory.documents.document_sources import DocumentSources
    from turnstone.services.memory.documents.documents import Documents
    from turnstone.services.memory.documents.graphs import Graphs
    from turnstone.services.memory.documents.provided_content import ProvidedContent
    from turnstone.services.memory.documents.values import Values
    from turnstone.services.memory.embedding import BankEmbedding
    from turnstone.services.memory.folding import Folding
    from turnstone.services.memory.indexes import Indexes
    from turnstone.services.memory.inserting import Inserting, Store
    from turnstone.services.memory.provided_search import ProvidedSearch
    from turnstone.services.memory.recalling import Recalling
    from turnstone.services.memory.searching import Searching
    from turnstone.services.threads.insertion_slots import InsertionSlots
    from turnstone.store.memory.contents import BankContents

READING_S = 10.0  # for a document of a request
READING_BYTES = 256 * 1024 * 1024


class MemoryServices:
    """The services of memory banks; models are loaded when the first text is embedded."""

    def __init__(
        self, foundation: Foundation, registries: Callable[[], Registries], models: Callable[[], ModelServices]
    ) -> None:
        self._foundation = foundation
        self._registries = registries
        self._models = models

    @cached_property
    def banks(self) -> Banks:
        from turnstone.services.memory.banks import BankDeps, Banks
        from turnstone.store.memory.banks import BankStore

        ports = self._foundation.ports
        return Banks(
            BankDeps(
                store=BankStore(ports.store),
                rules=self._foundation.rules,
                route=lambda tenant, model: self._registries().routing.route_of_bank(tenant, model),
                embedding=self.embedding,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
                providers=lambda: ports.bank_providers,
            )
        )

    @cached_property
    def inserting(self) -> Inserting:
        from turnstone.services.memory.inserting import Inserting, InsertingDeps

        clock = self._foundation.ports.clock
        return Inserting(
            InsertingDeps(
                self.banks,
                self._contents,
                self.folding,
                self.embedding,
                clock,
                self._chunks_elsewhere,
                self.insertion_slots.taken,
            )
        )

    @cached_property
    def insertion_slots(self) -> InsertionSlots:
        from turnstone.services.threads.insertion_slots import InsertionSlots

        settings = self._foundation.settings
        return InsertionSlots(has_tenants=settings.tenant_turns < settings.max_running_turns)

    def _chunks_elsewhere(self, provider_id: str) -> Store | None:
        content = self._elsewhere(provider_id, self.embedding)
        return None if content is None else content.insert_chunks

    def _elsewhere(self, provider_id: str, embedding: BankEmbedding) -> ProvidedContent | None:
        """Return the content of banks of another store, None for this server's own."""
        from turnstone.domain.memory.banks import EMBEDDED_PROVIDER

        ports = self._foundation.ports
        if provider_id == EMBEDDED_PROVIDER or ports.bank_providers.is_own(provider_id):
            return None
        from turnstone.services.memory.documents.provided_content import ProvidedContent, ProvidedContentDeps
        from turnstone.store.memory.provided import ProvidedStore

        deps = ProvidedContentDeps(self.records, ProvidedStore(ports.store), ports.bank_providers, embedding)
        return ProvidedContent(deps, provider_id)

    @cached_property
    def folding(self) -> Folding:
        from turnstone.services.memory.folding import Folding, FoldingDeps
        from turnstone.services.memory.merging import Merging
        from turnstone.services.memory.segment_writing import SegmentWriting

        ports = self._foundation.ports
        writing = SegmentWriting(self._contents, self.indexes, lambda: ports.jobs, ports.clock, ports.ids)
        merging = Merging(self._contents, self.indexes, writing)
        return Folding(FoldingDeps(self._contents, writing, merging))

    @cached_property
    def documents(self) -> Documents:
        return self.documents_by(self.embedding)

    def documents_by(self, embedding: BankEmbedding) -> Documents:
        """Return the insertion of documents, whose texts are embedded so."""
        from turnstone.services.memory.documents.chunk_content import ChunkContent, ChunkContentDeps
        from turnstone.services.memory.documents.documents import DocumentDeps, Documents

        texts = ChunkContent(ChunkContentDeps(self.records, self.folding, self.indexes, embedding))
        kinds: dict[BankKind, Callable[[], KindContent]] = {
            "keyvalue": lambda: self._values,
            "graph": lambda: self._graphs,
        }
        return Documents(
            DocumentDeps(
                banks=self.banks,
                records=self.records,
                sources=self.document_sources,
                texts=texts,
                elsewhere=lambda provider_id: self._elsewhere(provider_id, embedding),
                kinds=kinds,
                slot=self.insertion_slots.taken,
            )
        )

    def load_kinds(self) -> None:
        """Build the parts that only banks of some kinds and addresses need."""
        _ = self._values, self._graphs, self._fetcher, self._provided_search

    @cached_property
    def document_sources(self) -> DocumentSources:
        from turnstone.services.memory.documents.document_sources import DocumentSources

        return DocumentSources(
            self._fetched, lambda document: self._extractor.extract(document), self._foundation.ports.clock.monotonic_s
        )

    @cached_property
    def _extractor(self) -> Extractor:
        """Reads the documents of requests, which wait for it."""
        from turnstone.adapters.extracting.extractor import DocumentExtractor
        from turnstone.adapters.extracting.reading_process import ReadingLimits, ReadingProcesses

        return DocumentExtractor(ReadingProcesses(ReadingLimits(READING_S, READING_BYTES)))

    @cached_property
    def recalling(self) -> Recalling:
        return self._recalling_by(lambda: self.searching)

    def recalling_by(self, embedding: BankEmbedding) -> Recalling:
        """Return the queries to banks, whose questions are embedded so."""
        searching = self._searching_by(embedding)
        return self._recalling_by(lambda: searching)

    def _recalling_by(self, searching: Callable[[], Searching]) -> Recalling:
        from turnstone.services.memory.recalling import Recalling, RecallingDeps

        return Recalling(
            RecallingDeps(
                banks=self.banks,
                searching=searching,
                values=lambda *query: self._values.found(*query),
                edges=lambda *query: self._graphs.found(*query),
            )
        )

    @cached_property
    def searching(self) -> Searching:
        return self._searching_by(self.embedding)

    def _searching_by(self, embedding: BankEmbedding) -> Searching:
        from turnstone.services.memory.searching import Searching, SearchingDeps

        return Searching(
            SearchingDeps(self.banks, self._contents, self.indexes, embedding, lambda: self._provided_search)
        )

    @cached_property
    def _provided_search(self) -> ProvidedSearch:
        from turnstone.services.memory.provided_search import ProvidedSearch, ProvidedSearchDeps
        from turnstone.store.memory.provided import ProvidedStore

        ports = self._foundation.ports
        return ProvidedSearch(ProvidedSearchDeps(ProvidedStore(ports.store), ports.bank_providers, ports.clock))

    @cached_property
    def records(self) -> DocumentRecords:
        from turnstone.services.memory.documents.document_records import DocumentRecords
        from turnstone.store.memory.documents import DocumentStore

        ports = self._foundation.ports
        return DocumentRecords(self._contents, DocumentStore(ports.store), ports.clock, ports.ids)

    @cached_property
    def _values(self) -> Values:
        from turnstone.services.memory.documents.values import Values
        from turnstone.store.memory.values import ValueStore

        ports = self._foundation.ports
        return Values(ValueStore(ports.store), self.records, lambda: ports.jobs)

    @cached_property
    def _graphs(self) -> Graphs:
        from turnstone.services.memory.documents.edge_making import EdgeMaking
        from turnstone.services.memory.documents.graphs import GraphDeps, Graphs
        from turnstone.store.memory.edges import EdgeStore

        ports = self._foundation.ports
        making = EdgeMaking(
            self._foundation.settings.graph_model, lambda *request: self._models().inferring.answer(*request)
        )
        return Graphs(GraphDeps(EdgeStore(ports.store), self.records, making, lambda: ports.jobs))

    @cached_property
    def _contents(self) -> BankContents:
        from turnstone.store.memory.contents import BankContents

        return BankContents(self._foundation.ports.store)

    @cached_property
    def indexes(self) -> Indexes:
        from turnstone.services.memory.indexes import Indexes

        return Indexes(self._contents, lambda: self._foundation.ports.segments)

    @cached_property
    def embedding(self) -> BankEmbedding:
        from turnstone.services.memory.embedding import BankEmbedding

        return BankEmbedding(lambda *texts: self._models().inferring.embed(*texts))

    def _fetched(self, address: str, timeout_s: float, most_bytes: int) -> SourceBody:
        """Return the content at an address. Raises FetchFailed."""
        from turnstone.adapters.fetching.messages import FetchRequest
        from turnstone.adapters.fetching.targets import to_target
        from turnstone.domain.errors import FetchFailed
        from turnstone.domain.memory.documents import SourceBody

        fetched = self._fetcher.fetch(FetchRequest("GET", address, timeout_s=timeout_s, max_bytes=most_bytes))
        if fetched.status != 200:
            raise FetchFailed(to_target(fetched.url).origin, f"its server answers HTTP {fetched.status}")
        return SourceBody(fetched.body, fetched.media_type, fetched.charset)

    @cached_property
    def _fetcher(self) -> GuardedFetcher:
        from turnstone.adapters.fetching.allowing import Allowed
        from turnstone.adapters.fetching.fetcher import GuardedFetcher

        return GuardedFetcher(Allowed.of(self._foundation.settings.fetch_allow))
