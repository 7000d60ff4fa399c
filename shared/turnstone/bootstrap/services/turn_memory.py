"""The services of memory in turns, which embed in the slot that their turn has."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.memory import MemoryServices
    from turnstone.bootstrap.services.models import ModelServices
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.domain.memory.banks import VectorSpace
    from turnstone.services.agents.archival_toolbox import ArchivalToolbox
    from turnstone.services.agents.archives import Archives
    from turnstone.services.agents.passages import Passages
    from turnstone.services.memory.documents.documents import Documents
    from turnstone.services.memory.embedding import BankEmbedding
    from turnstone.services.memory.recalling import Recalling
    from turnstone.services.memory.turns.file_search import FileSearchToolbox
    from turnstone.services.memory.turns.lending import Lending
    from turnstone.services.memory.turns.query_making import QueryMaking
    from turnstone.services.memory.turns.rag_queries import RagQueries
    from turnstone.services.memory.turns.rag_toolbox import RagToolbox
    from turnstone.services.memory.turns.session_banks import SessionBanks
    from turnstone.services.memory.turns.turn_memory import MemoryOfTurns
    from turnstone.services.memory.turns.turn_texts import TurnTexts
    from turnstone.store.memory.bank_reads import BankReads


class TurnMemoryServices:
    """The services of memory in turns, loaded for the first turn that has some."""

    def __init__(
        self,
        foundation: Foundation,
        registries: Callable[[], Registries],
        models: Callable[[], ModelServices],
        memory: MemoryServices,
    ) -> None:
        self._foundation = foundation
        self._registries = registries
        self._models = models
        self._memory = memory

    @cached_property
    def memories(self) -> MemoryOfTurns:
        from turnstone.services.memory.turns.turn_memory import MemoryOfTurns, TurnMemoryDeps

        return MemoryOfTurns(TurnMemoryDeps(self.lending, self._queries, self._recalling, self._session_banks))

    @cached_property
    def rag_toolbox(self) -> RagToolbox:
        from turnstone.services.memory.turns.rag_toolbox import RagToolbox

        return RagToolbox(self.lending, self._queries, self._recalling, self._session_banks)

    @cached_property
    def archives(self) -> Archives:
        """The archival memory of agents, for requests outside turns."""
        return self._archives_by(self._memory.documents, self._memory.recalling)

    @cached_property
    def archival_toolbox(self) -> ArchivalToolbox:
        from turnstone.services.agents.archival_toolbox import ArchivalToolbox

        documents = self._memory.documents_by(self._embedding())
        return ArchivalToolbox(self._archives_by(documents, self._recalling))

    def _archives_by(self, documents: Documents, recalling: Recalling) -> Archives:
        from turnstone.services.agents.archives import ArchiveDeps, Archives
        from turnstone.store.letta.agents import LettaAgentStore
        from turnstone.store.memory.banks import BankStore

        ports = self._foundation.ports
        return Archives(
            ArchiveDeps(
                agents=self._foundation.agent_store,
                letta_agents=LettaAgentStore(ports.store),
                banks=BankStore(ports.store),
                documents=documents,
                passages=self.passages,
                rules=self._foundation.rules,
                recalling=recalling,
                space=self.default_space,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def passages(self) -> Passages:
        """The passages of archival memories and sources."""
        from turnstone.services.agents.passages import Passages

        return Passages(self.reads, self._memory.records, self._memory.indexes)

    @cached_property
    def file_search(self) -> FileSearchToolbox:
        from turnstone.services.memory.turns.file_search import FileSearchToolbox

        return FileSearchToolbox(self.lending, self._recalling, self._memory.records.found)

    @cached_property
    def rag_queries(self) -> RagQueries:
        from turnstone.services.memory.turns.rag_queries import RagQueries, RagQueryDeps

        return RagQueries(
            RagQueryDeps(
                banks=self._memory.banks,
                searching=self._memory.searching,
                queries=self._queries,
                slot=lambda caller: self._models().inferring.slot(caller),
            )
        )

    @cached_property
    def texts(self) -> TurnTexts:
        from turnstone.services.memory.turns.turn_texts import TurnTexts

        return TurnTexts(self._memory.document_sources.read)

    @cached_property
    def lending(self) -> Lending:
        from turnstone.services.memory.turns.lending import Lending

        return Lending(self.reads, self._foundation.rules, self._foundation.ports.clock)

    @cached_property
    def _queries(self) -> QueryMaking:
        from turnstone.services.memory.turns.query_making import QueryMaking, QueryMakingDeps

        return QueryMaking(QueryMakingDeps(self._foundation.ports.inference, self._registries().routing.route))

    @cached_property
    def _session_banks(self) -> SessionBanks:
        from turnstone.services.memory.turns.session_banks import SessionBankDeps, SessionBanks
        from turnstone.store.memory.banks import BankStore

        ports = self._foundation.ports
        return SessionBanks(
            SessionBankDeps(
                store=BankStore(ports.store),
                reads=self.reads,
                insert=self._memory.documents_by(self._embedding()).insert,
                space=self.default_space,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    def default_space(self, tenant: str) -> VectorSpace | None:
        """Return the space of the default embedding model, None without one."""
        from turnstone.domain.memory.banks import VectorSpace

        route = self._registries().routing.embedding_route(tenant)
        if route is None or route.embedding_dimension is None:
            return None
        return VectorSpace(model=route.model_id, dimension=route.embedding_dimension)

    @cached_property
    def _recalling(self) -> Recalling:
        return self._memory.recalling_by(self._embedding())

    def _embedding(self) -> BankEmbedding:
        from turnstone.services.memory.embedding import BankEmbedding

        return BankEmbedding(lambda *texts: self._models().inferring.embed_in_turn(*texts))

    @cached_property
    def reads(self) -> BankReads:
        from turnstone.store.memory.bank_reads import BankReads

        return BankReads(self._foundation.ports.store)
