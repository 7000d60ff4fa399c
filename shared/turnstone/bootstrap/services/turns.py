"""The services of turns, with the store, the leases and the events that they share, and those of responses."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.cleanup import CleanupServices
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.services.agents.block_prompts import BlockPrompts
    from turnstone.services.responses.conversations import Conversations
    from turnstone.services.responses.responses import Responses
    from turnstone.services.streams.broadcast import Broadcasts
    from turnstone.services.streams.following import Following
    from turnstone.services.streams.session_queues import SessionQueues
    from turnstone.services.turns.cancelling import Cancelling
    from turnstone.services.turns.leases import LeaseKeeper, LocalRuns
    from turnstone.services.turns.reading import TurnReader
    from turnstone.services.turns.recovery import Recovery
    from turnstone.services.turns.run_request import RunnerDeps
    from turnstone.services.turns.running import TurnRunner
    from turnstone.services.turns.summarizing import Summarizer
    from turnstone.services.turns.turn_events import TurnEvents
    from turnstone.services.turns.turns import Turns
    from turnstone.store.sessions.turns import TurnStore

FOLLOW_S = 1.0


class TurnServices:
    """The services of turns."""

    def __init__(
        self,
        foundation: Foundation,
        registries: Registries,
        memory: Callable[[], TurnMemoryServices],
        prompts: Callable[[], BlockPrompts],
    ) -> None:
        """Take the services of memory, and the prompts with memory blocks, as functions: few turns have some."""
        self._foundation = foundation
        self._registries = registries
        self._memory = memory
        self._prompts = prompts

    @cached_property
    def turns(self) -> Turns:
        from turnstone.services.turns.turns import Turns

        queued = None if self._foundation.is_on_lambda else self.recovery.queued
        executor = self._foundation.executor
        return Turns(
            self.runner_deps, self._foundation.rules, self._runner, executor, queued, lambda: self.session_queues
        )

    @cached_property
    def nested(self) -> tuple[Turns, ...]:
        """The turns that calls of other turns start, by their depth, each with slots of its own."""
        from turnstone.services.threads.executor import TurnExecutor
        from turnstone.services.tools.toolboxes import MOST_DEPTH
        from turnstone.services.turns.turns import Turns

        settings, rules = self._foundation.settings, self._foundation.rules
        executors = (TurnExecutor(settings.max_running_turns, settings.tenant_turns) for _ in range(MOST_DEPTH))
        return tuple(
            Turns(self.runner_deps, rules, self._runner, executor, None, lambda: self.session_queues)
            for executor in executors
        )

    @cached_property
    def unstored(self) -> Turns:
        """The turns of responses that are not stored."""
        from turnstone.services.responses.unstored import unstored_deps
        from turnstone.services.turns.running import TurnRunner
        from turnstone.services.turns.turns import Turns
        from turnstone.store.responses.unstored import UnstoredTurns

        foundation = self._foundation
        deps = unstored_deps(self.runner_deps, UnstoredTurns(foundation.ports.store, self._registries.directory))
        runner = TurnRunner(deps)
        return Turns(deps, foundation.rules, runner, foundation.executor, None, lambda: self.session_queues)

    @cached_property
    def reader(self) -> TurnReader:
        from turnstone.services.turns.reading import TurnReader

        ports = self._foundation.ports
        return TurnReader(self.turn_store, self._foundation.rules, ports.supervisor, ports.clock)

    @cached_property
    def events(self) -> TurnEvents:
        from turnstone.services.turns.turn_events import TurnEvents

        ports = self._foundation.ports
        return TurnEvents(self.turn_store, self._foundation.rules, ports.supervisor, ports.clock, self.following)

    @cached_property
    def cancelling(self) -> Cancelling:
        from turnstone.services.turns.cancelling import Cancelling, CancellingDeps

        ports = self._foundation.ports
        deps = CancellingDeps(self.turn_store, ports.supervisor, ports.clock, self.leases, self.broadcasts)
        return Cancelling(deps, self._foundation.rules)

    @cached_property
    def recovery(self) -> Recovery:
        from turnstone.services.turns.recovery import Recovery

        return Recovery(self.runner_deps, self._runner, self._foundation.executor)

    @cached_property
    def turn_store(self) -> TurnStore:
        from turnstone.store.sessions.turns import TurnStore
        from turnstone.store.webhooks.reporting import Reporting

        # a Lambda has one reader at a time, and each read costs money
        leaves_long_texts = not self._foundation.is_on_lambda
        directory = self._registries.directory
        ports = self._foundation.ports
        reporting = Reporting(directory, lambda: ports.jobs)
        return TurnStore(ports.store, directory, reporting, leaves_long_texts=leaves_long_texts)

    @cached_property
    def leases(self) -> LeaseKeeper:
        from turnstone.services.turns.leases import LeaseKeeper

        lasting = timedelta(seconds=self._foundation.settings.lease_seconds)
        return LeaseKeeper(self.turn_store, self._foundation.ports.clock, lasting)

    @cached_property
    def broadcasts(self) -> Broadcasts:
        from turnstone.services.streams.broadcast import Broadcasts

        return Broadcasts()

    @cached_property
    def local_runs(self) -> LocalRuns:
        from turnstone.services.turns.leases import LocalRuns

        return LocalRuns(self.leases, self.broadcasts)

    @cached_property
    def following(self) -> Following:
        from turnstone.services.streams.following import Following

        return Following(self.turn_store, self.broadcasts, FOLLOW_S)

    @cached_property
    def session_queues(self) -> SessionQueues:
        from turnstone.services.streams.session_queues import SessionQueues

        return SessionQueues(self.turn_store, self.following, self._foundation.ports.clock)

    @cached_property
    def runner_deps(self) -> RunnerDeps:
        from turnstone.services.turns.run_request import RunnerDeps

        ports, settings = self._foundation.ports, self._foundation.settings
        return RunnerDeps(
            turns=self.turn_store,
            inference=ports.inference,
            tools=self._registries.toolboxes,
            shields=self._registries.shieldings,
            supervisor=ports.supervisor,
            clock=ports.clock,
            ids=ports.ids,
            leases=self.leases,
            broadcasts=self.broadcasts,
            context_tokens=settings.context_tokens,
            await_duration=timedelta(seconds=settings.await_seconds),
            limits=self._foundation.limits,
            summarizer=self._summarizer,
            summarizes_all=settings.summaries,
            route=self._registries.routing.route,
            follow=self.following.follow,
            tidies_up=not self._foundation.is_on_lambda,
            runs_unattended=not self._foundation.is_on_lambda,
            memories=lambda: self._memory().memories,
            fetch_documents=lambda given: self._memory().texts.fetched(given),
            prompt_of=lambda ref, config: self._prompts().of(ref, config) if config.memory_blocks else None,
        )

    @cached_property
    def _runner(self) -> TurnRunner:
        from turnstone.services.turns.running import TurnRunner

        return TurnRunner(self.runner_deps)

    def _summarizer(self) -> Summarizer:
        from turnstone.services.turns.summarizing import Summarizer

        return Summarizer(self.turn_store)


class ResponseServices:
    """The services of responses; those of turns are built for changes, not for lists."""

    def __init__(
        self, foundation: Foundation, turns: Callable[[], TurnServices], cleanup: Callable[[], CleanupServices]
    ) -> None:
        self._foundation = foundation
        self._turns = turns
        self._cleanup = cleanup

    @cached_property
    def responses(self) -> Responses:
        from turnstone.services.responses.responses import ResponseDeps, Responses
        from turnstone.store.files.attachments import AttachmentStore
        from turnstone.store.responses.conversations import ConversationStore
        from turnstone.store.responses.responses import ResponseStore
        from turnstone.store.sessions.turns import TurnStore

        ports, settings = self._foundation.ports, self._foundation.settings
        return Responses(
            ResponseDeps(
                turns=self._turns().turns,
                turn_store=TurnStore(ports.store),  # items are cut out of whole texts
                store=ResponseStore(ports.store),
                agents=self._foundation.agent_store,
                rules=self._foundation.rules,
                clock=ports.clock,
                ids=ports.ids,
                kept_for_s=settings.responses_ttl_s,
                ephemeral_for_s=settings.ephemeral_ttl_s,
                read_tokens=self._turns().runner_deps.read_tokens,
                read_tokens_of=self._turns().runner_deps.read_tokens_of,
                deleting=lambda: self._cleanup().deleting,
                events=lambda: self._turns().events,
                cancelling=lambda: self._turns().cancelling,
                supervisor=ports.supervisor,
                attachments=lambda: AttachmentStore(ports.store),
                unstored=lambda: self._turns().unstored,
                conversations=lambda: ConversationStore(ports.store),
            )
        )

    @cached_property
    def conversations(self) -> Conversations:
        from turnstone.services.responses.conversations import ConversationDeps, Conversations
        from turnstone.store.responses.conversations import ConversationStore
        from turnstone.store.sessions.turns import TurnStore

        ports, settings = self._foundation.ports, self._foundation.settings
        return Conversations(
            ConversationDeps(
                store=ConversationStore(ports.store),
                turns=TurnStore(ports.store),
                agents=self._foundation.agent_store,
                rules=self._foundation.rules,
                clock=ports.clock,
                ids=ports.ids,
                ephemeral_for_s=settings.ephemeral_ttl_s,
                read_tokens=settings.context_tokens,
                deleting=lambda: self._cleanup().deleting,
            )
        )
