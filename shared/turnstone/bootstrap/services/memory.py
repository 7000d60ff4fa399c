"""The services of memory banks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.models import ModelServices
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.services.memory.banks import Banks
    from turnstone.services.memory.embedding import BankEmbedding
    from turnstone.services.memory.folding import Folding
    from turnstone.services.memory.indexes import Indexes
    from turnstone.services.memory.inserting import Inserting
    from turnstone.services.memory.searching import Searching
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

        clock = self._foundation.ports.clock
        return Inserting(InsertingDeps(self.banks, self._contents, self.folding, self._embedding, clock))

    @cached_property
    def folding(self) -> Folding:
        from turnstone.services.memory.folding import Folding, FoldingDeps
        from turnstone.services.memory.merging import Merging
        from turnstone.services.memory.segment_writing import SegmentWriting

        ports = self._foundation.ports
        writing = SegmentWriting(self._contents, self._indexes, lambda: ports.jobs, ports.clock, ports.ids)
        merging = Merging(self._contents, self._indexes, writing)
        return Folding(FoldingDeps(self._contents, writing, merging))

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
