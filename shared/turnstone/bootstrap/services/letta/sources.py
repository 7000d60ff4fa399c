"""The services of Letta's sources: banks of uploaded files, and the jobs that insert them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.ingesting import IngestingServices
    from turnstone.bootstrap.services.memory import MemoryServices
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.services.files.files import Files
    from turnstone.services.letta.source_files import SourceFiles
    from turnstone.services.letta.sources import Sources


class SourceServices:
    """The services of sources; what an upload alone needs is loaded by the first one."""

    def __init__(
        self,
        foundation: Foundation,
        memory: MemoryServices,
        turn_memory: Callable[[], TurnMemoryServices],
        ingesting: Callable[[], IngestingServices],
        files: Callable[[], Files],
    ) -> None:
        self._foundation = foundation
        self._memory = memory
        self._turn_memory = turn_memory
        self._ingesting = ingesting
        self._files = files

    @cached_property
    def sources(self) -> Sources:
        from turnstone.services.letta.sources import SourceDeps, Sources
        from turnstone.store.memory.banks import BankStore

        ports = self._foundation.ports
        return Sources(
            SourceDeps(
                banks=self._memory.banks,
                store=BankStore(ports.store),
                reads=self._turn_memory().reads,
                passages=lambda: self._turn_memory().passages,
                rules=self._foundation.rules,
                space=lambda tenant: self._turn_memory().default_space(tenant),
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def source_files(self) -> SourceFiles:
        from turnstone.services.letta.source_files import SourceFileDeps, SourceFiles
        from turnstone.store.letta.jobs import LettaJobStore

        ports = self._foundation.ports
        return SourceFiles(
            SourceFileDeps(
                sources=self.sources,
                documents=self._memory.documents,
                records=self._memory.records,
                reads=self._turn_memory().reads,
                jobs=LettaJobStore(ports.store),
                files=lambda: self._files(),
                ingesting=lambda: self._ingesting().ingesting,
                rules=self._foundation.rules,
                clock=ports.clock,
                ids=ports.ids,
                kept_for_s=self._foundation.settings.responses_ttl_s,
            )
        )
