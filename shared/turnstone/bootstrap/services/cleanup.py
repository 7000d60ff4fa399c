"""The services of deletions, clean-up jobs and sweeps."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.ingesting import IngestingServices
    from turnstone.bootstrap.services.turns import TurnServices
    from turnstone.domain.jobs import Job, JobKind
    from turnstone.services.agents.blocks import Blocks
    from turnstone.services.cleanup.cleaning import Act, Cleaning
    from turnstone.services.cleanup.deleting import Deleting
    from turnstone.services.cleanup.sweeping import Sweeper
    from turnstone.services.memory.provided_clearing import ProvidedClearing
    from turnstone.services.webhooks.sending import WebhookSending
    from turnstone.store.letta.agents import LettaAgentStore


class CleanupServices:
    """The services of deletion; those of turns are built for sweeps, and where turns run in this process."""

    def __init__(
        self,
        foundation: Foundation,
        turns: Callable[[], TurnServices],
        ingesting: Callable[[], IngestingServices],
        blocks: Callable[[], Blocks],
        sending: Callable[[], WebhookSending],
    ) -> None:
        self._foundation = foundation
        self._turns = turns
        self._ingesting = ingesting
        self._blocks = blocks
        self._sending = sending

    @cached_property
    def deleting(self) -> Deleting:
        from turnstone.services.cleanup.deleting import Deleting, DeletingDeps

        ports = self._foundation.ports
        return Deleting(
            DeletingDeps(
                sessions=self._foundation.session_store,
                agents=self._foundation.agent_store,
                jobs=ports.jobs,
                clock=ports.clock,
                stop_runs=(lambda _: None) if self._foundation.is_on_lambda else self._turns().local_runs.stop,
                blocks=self._blocks,
                letta_agents=self._letta_agents,
            ),
            self._foundation.rules,
        )

    def _letta_agents(self) -> LettaAgentStore:
        from turnstone.store.letta.agents import LettaAgentStore

        return LettaAgentStore(self._foundation.ports.store)

    @cached_property
    def cleaning(self) -> Cleaning:
        from turnstone.services.cleanup.cleaning import CleanedStores, Cleaning
        from turnstone.store.cleanup.jobs import JobStore
        from turnstone.store.files.contents import FileContents
        from turnstone.store.memory.banks import BankStore
        from turnstone.store.memory.contents import BankContents
        from turnstone.store.memory.insertions import InsertionStore
        from turnstone.store.models.stored_completions import StoredCompletionStore

        ports = self._foundation.ports
        stores = CleanedStores(
            sessions=self._foundation.session_store,
            agents=self._foundation.agent_store,
            completions=StoredCompletionStore(ports.store),
            banks=BankStore(ports.store),
            contents=BankContents(ports.store),
            insertions=InsertionStore(ports.store),
            files=FileContents(ports.store),
        )
        others: dict[JobKind, Act] = {
            "clean_batch": lambda job, until: self._provided_clearing.clear_batch(job, until),
            "clean_provided_bank": lambda job, until: self._provided_clearing.clear_bank(job, until),
            "ingest_document": self._ingest,
            "send_event": lambda job, until: self._sending().make_deliveries(job, until),
            "send_webhook": lambda job, until: self._sending().deliver(job, until),
        }
        return Cleaning(JobStore(ports.store), stores, ports.jobs, ports.clock, others)

    def load_clearing(self) -> None:
        """Build the clean-up of content at other stores."""
        _ = self._provided_clearing

    @cached_property
    def _provided_clearing(self) -> ProvidedClearing:
        from turnstone.services.memory.provided_clearing import ProvidedClearing, ProvidedClearingDeps
        from turnstone.store.cleanup.jobs import JobStore
        from turnstone.store.memory.provided import ProvidedStore

        ports = self._foundation.ports
        return ProvidedClearing(
            ProvidedClearingDeps(
                ProvidedStore(ports.store), ports.bank_providers, JobStore(ports.store), ports.jobs, ports.clock
            )
        )

    def _ingest(self, job: Job, until: datetime) -> None:
        self._ingesting().ingesting.ingest(job, until)

    @cached_property
    def sweeper(self) -> Sweeper:
        from turnstone.services.cleanup.sweeping import Alone, Sweeper
        from turnstone.store.cleanup.sweeps import SweepStore

        ports = self._foundation.ports
        turns = self._turns()
        alone = Alone(SweepStore(ports.store), ports.ids) if self._foundation.is_on_lambda else None
        duties = (self.cleaning.send_newly_due,)
        return Sweeper(turns.turn_store, turns.recovery.reconcile, ports.clock, duties, alone)
