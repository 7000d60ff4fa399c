"""The services of memory banks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.models import ModelServices
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.domain.memory.banks import VectorSpace
    from turnstone.services.memory.banks import Banks
    from turnstone.services.memory.embedding import BankEmbedding
    from turnstone.services.memory.folding import Folding
    from turnstone.services.memory.indexes import Indexes
    from turnstone.services.memory.inserting import Inserting
    from turnstone.services.memory.lending import Lending
    from turnstone.services.memory.query_making import QueryMaking
    from turnstone.services.memory.rag_toolbox import RagToolbox
    from turnstone.services.memory.searching import Searching
    from turnstone.services.memory.session_banks import SessionBanks
    from turnstone.services.memory.turn_memory import MemoryOfTurns
    from turnstone.services.tools.own_toolboxes import OwnToolgroup
    from turnstone.store.memory.bank_reads import BankReads
    from turnstone.store.memory.contents import BankContents


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
                route=lambda tenant, model: self._registries().routing.route_now(tenant, model),
                embedding=self._embedding,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def inserting(self) -> Inserting:
        from turnstone.services.memory.inserting import Inserting, InsertingDeps

        ports = self._foundation.ports
        deps = InsertingDeps(self.banks, self._contents, self._folding, self._embedding, ports.clock, ports.ids)
        return Inserting(deps)

    @cached_property
    def searching(self) -> Searching:
        from turnstone.services.memory.searching import Searching, SearchingDeps

        return Searching(SearchingDeps(self.banks, self._contents, self._indexes, self._embedding))

    @cached_property
    def _contents(self) -> BankContents:
        from turnstone.store.memory.contents import BankContents

        return BankContents(self._foundation.ports.store)

    @cached_property
    def _indexes(self) -> Indexes:
        from turnstone.services.memory.indexes import Indexes

        return Indexes(self._contents, lambda: self._foundation.ports.segments)

    @cached_property
    def _embedding(self) -> BankEmbedding:
        from turnstone.services.memory.embedding import BankEmbedding

        return BankEmbedding(lambda *texts: self._models().inferring.embed(*texts))

    @cached_property
    def turn_memories(self) -> MemoryOfTurns:
        """The memory of turns; a turn embeds in the slot that it has."""
        from turnstone.services.memory.turn_memory import MemoryOfTurns, TurnMemoryDeps

        deps = TurnMemoryDeps(self.lending, self._queries, lambda: self._searching_in_turns, self._session_banks)
        return MemoryOfTurns(deps)

    @cached_property
    def rag_toolbox(self) -> RagToolbox:
        from turnstone.services.memory.rag_toolbox import RagToolbox

        return RagToolbox(self.lending, self._queries, lambda: self._searching_in_turns, self._session_banks)

    @cached_property
    def _queries(self) -> QueryMaking:
        from turnstone.services.memory.query_making import QueryMaking, QueryMakingDeps

        return QueryMaking(QueryMakingDeps(self._foundation.ports.inference, self._registries().routing.route))

    @cached_property
    def lending(self) -> Lending:
        from turnstone.services.memory.lending import Lending

        return Lending(self._reads, self._foundation.rules)

    @cached_property
    def _session_banks(self) -> SessionBanks:
        from turnstone.services.memory.session_banks import SessionBankDeps, SessionBanks
        from turnstone.store.memory.banks import BankStore

        ports = self._foundation.ports
        return SessionBanks(
            SessionBankDeps(
                store=BankStore(ports.store),
                reads=self._reads,
                contents=self._contents,
                folding=lambda: self._folding,
                embedding=self._embedding_in_turns,
                space=self._space_of_sessions,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    def _space_of_sessions(self, tenant: str) -> VectorSpace | None:
        from turnstone.domain.memory.banks import VectorSpace

        route = self._registries().routing.embedding_route(tenant)
        if route is None or route.embedding_dimension is None:
            return None
        return VectorSpace(model=route.model_id, dimension=route.embedding_dimension)

    @cached_property
    def _searching_in_turns(self) -> Searching:
        from turnstone.services.memory.searching import Searching, SearchingDeps

        return Searching(SearchingDeps(self.banks, self._contents, self._indexes, self._embedding_in_turns))

    @cached_property
    def _embedding_in_turns(self) -> BankEmbedding:
        from turnstone.services.memory.embedding import BankEmbedding

        return BankEmbedding(lambda *texts: self._models().inferring.embed_in_turn(*texts))

    @cached_property
    def _folding(self) -> Folding:
        from turnstone.services.memory.folding import Folding, FoldingDeps

        ports = self._foundation.ports
        return Folding(FoldingDeps(self._contents, self._indexes, lambda: ports.jobs, ports.clock, ports.ids))

    @cached_property
    def _reads(self) -> BankReads:
        from turnstone.store.memory.bank_reads import BankReads

        return BankReads(self._foundation.ports.store)


def rag_toolgroup(build: Callable[[], RagToolbox]) -> OwnToolgroup:
    """Return `builtin::rag`, listed as other toolgroups are, and registered by the set-up scripts of applications."""
    from turnstone.domain.memory.lent_banks import RAG
    from turnstone.services.tools.own_toolboxes import OwnToolgroup

    return OwnToolgroup(RAG, build, is_listed=True, may_be_registered=True)
