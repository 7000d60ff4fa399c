"""The services over some ports, the same on one machine and on AWS.

Each service is loaded at its first use, so that a Lambda loads only the services of its own routes.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.adapters import AnyPorts
    from turnstone.bootstrap.registries import Registries
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.services.access.access import AccessRules
    from turnstone.services.agents.agents import Agents
    from turnstone.services.cleanup.cleaning import Cleaning
    from turnstone.services.cleanup.deleting import Deleting
    from turnstone.services.cleanup.sweeping import Sweeper
    from turnstone.services.files.attachments import Attachments
    from turnstone.services.models.inferring import Inferring
    from turnstone.services.models.registry import Models, Providers
    from turnstone.services.models.stored_completions import StoredCompletions
    from turnstone.services.sessions.session_context import SessionContexts
    from turnstone.services.sessions.sessions import Sessions
    from turnstone.services.shields.shields import Shields
    from turnstone.services.streams.broadcast import Broadcasts
    from turnstone.services.streams.following import Following
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.services.threads.slots import QueueLimits
    from turnstone.services.tools.toolgroups import Toolgroups
    from turnstone.services.turns.cancelling import Cancelling
    from turnstone.services.turns.leases import LeaseKeeper
    from turnstone.services.turns.local_runs import LocalRuns
    from turnstone.services.turns.reading import TurnReader
    from turnstone.services.turns.recovery import Recovery
    from turnstone.services.turns.run_request import RunnerDeps
    from turnstone.services.turns.running import TurnRunner
    from turnstone.services.turns.turn_events import TurnEvents
    from turnstone.services.turns.turns import Turns
    from turnstone.services.usage.usage import Usage
    from turnstone.settings.config import Settings
    from turnstone.store.agents.agents import AgentStore
    from turnstone.store.models.stored_completions import StoredCompletionStore
    from turnstone.store.sessions.sessions import SessionStore
    from turnstone.store.sessions.turns import TurnStore

FOLLOW_S = 1.0


class Core:
    """The services over some ports, with the stores and threads that they share.

    `is_on_lambda` is set where the process is frozen between requests: all its work happens during a request, and it
    polls turns of other processes, because its supervisor sends it no notice of them. Without `queue_limits` no request
    waits for a slot: a Lambda has one request at a time, and every slot is free.
    """

    def __init__(
        self,
        ports: AnyPorts,
        settings: Settings,
        *,
        is_on_lambda: bool = False,
        queue_limits: QueueLimits | None = None,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._is_on_lambda = is_on_lambda
        self._queue_limits = queue_limits

    def load(self) -> Core:
        """Load every service, for processes in which several threads would do so at once."""
        _ = self.agents, self.sessions, self.turns, self.reader, self.events, self.cancelling
        _ = self.deleting, self.cleaning, self.recovery, self.sweeper, self._refuse
        _ = self.models, self.providers, self.toolgroups, self.shields, self.usage, self.inferring, self.attachments
        _ = self.contexts
        _ = self.stored_completions
        return self

    def load_service(self, name: str, *, for_changes: bool) -> None:
        """Load the service of that name, with the dependencies of its changes if `for_changes`."""
        _ = getattr(self, name)
        if for_changes and name == "agents":
            _ = self._refuse

    @property
    def max_infer_iters(self) -> int:
        return self._settings.max_infer_iters

    @cached_property
    def agents(self) -> Agents:
        from turnstone.services.agents.agents import Agents
        from turnstone.store.agents.agents import AgentStore

        ports = self._ports
        return Agents(
            AgentStore(ports.store),
            self._rules,
            lambda tenant, config: self._refuse(tenant, config),
            ports.clock,
            ports.ids,
        )

    @cached_property
    def sessions(self) -> Sessions:
        from turnstone.services.sessions.sessions import SessionDeps, Sessions

        sessions, agents = self._stores
        return Sessions(
            SessionDeps(
                store=sessions,
                agents=agents,
                rules=self._rules,
                supervisor=self._ports.supervisor,
                clock=self._ports.clock,
                ids=self._ports.ids,
                ephemeral_for_s=self._settings.ephemeral_ttl_s,
            )
        )

    @cached_property
    def deleting(self) -> Deleting:
        from turnstone.services.cleanup.deleting import Deleting, DeletingDeps

        sessions, agents = self._stores
        return Deleting(
            DeletingDeps(
                sessions=sessions,
                agents=agents,
                jobs=self._ports.jobs,
                clock=self._ports.clock,
                stop_runs=(lambda _: None) if self._is_on_lambda else self._runs_here.stop,
            ),
            self._rules,
        )

    @cached_property
    def cleaning(self) -> Cleaning:
        from turnstone.services.cleanup.cleaning import CleanedStores, Cleaning
        from turnstone.store.cleanup.jobs import JobStore

        stores = CleanedStores(*self._stores, self._completion_store)
        return Cleaning(JobStore(self._ports.store), stores, self._ports.jobs, self._ports.clock)

    @cached_property
    def reader(self) -> TurnReader:
        from turnstone.services.turns.reading import TurnReader

        return TurnReader(self.turn_store, self._rules, self._ports.supervisor, self._ports.clock)

    @cached_property
    def turns(self) -> Turns:
        from turnstone.services.turns.turns import Turns

        return Turns(self._runner_deps, self._rules, self._runner, self.executor)

    @cached_property
    def events(self) -> TurnEvents:
        from turnstone.services.turns.turn_events import TurnEvents

        ports = self._ports
        return TurnEvents(self.turn_store, self._rules, ports.supervisor, ports.clock, self._following)

    @cached_property
    def cancelling(self) -> Cancelling:
        from turnstone.services.turns.cancelling import Cancelling, CancellingDeps

        ports = self._ports
        deps = CancellingDeps(self.turn_store, ports.supervisor, ports.clock, self.leases, self.broadcasts)
        return Cancelling(deps, self._rules)

    @cached_property
    def recovery(self) -> Recovery:
        from turnstone.services.turns.recovery import Recovery

        return Recovery(self._runner_deps, self._runner, self.executor)

    @cached_property
    def sweeper(self) -> Sweeper:
        from turnstone.services.cleanup.sweeping import Alone, Sweeper
        from turnstone.store.cleanup.sweeps import SweepStore

        ports = self._ports
        alone = Alone(SweepStore(ports.store), ports.ids) if self._is_on_lambda else None
        duties = (self.cleaning.send_newly_due,)
        return Sweeper(self.turn_store, self.recovery.reconcile, ports.clock, duties, alone)

    @property
    def models(self) -> Models:
        return self._registries.models

    @property
    def providers(self) -> Providers:
        return self._registries.providers

    @property
    def toolgroups(self) -> Toolgroups:
        return self._registries.toolgroups

    @property
    def shields(self) -> Shields:
        return self._registries.shields

    @cached_property
    def usage(self) -> Usage:
        from turnstone.bootstrap.usage import build_usage

        return build_usage(self._ports, self._rules, self._registries)

    @cached_property
    def contexts(self) -> SessionContexts:
        from turnstone.services.sessions.session_context import SessionContexts

        context_tokens = self._settings.context_tokens
        return SessionContexts(
            self.turn_store, self._rules, self._registries.routing.route, self._ports.clock, context_tokens
        )

    @cached_property
    def inferring(self) -> Inferring:
        from turnstone.bootstrap.inferring import build_inferring

        return build_inferring(self._ports, self._settings, self._registries.routing, self.executor)

    @cached_property
    def stored_completions(self) -> StoredCompletions:
        from turnstone.services.models.stored_completions import StoredCompletionDeps, StoredCompletions

        return StoredCompletions(
            StoredCompletionDeps(
                store=self._completion_store,
                rules=self._rules,
                jobs=lambda: self._ports.jobs,
                clock=self._ports.clock,
                kept_for_s=self._settings.stored_completion_ttl_s,
            )
        )

    @cached_property
    def attachments(self) -> Attachments:
        from turnstone.services.files.attachments import Attachments
        from turnstone.store.files.attachments import AttachmentStore

        store = AttachmentStore(self._ports.store, reads_in_pieces=not self._is_on_lambda)
        return Attachments(store, self._rules, self._ports.clock)

    @cached_property
    def turn_store(self) -> TurnStore:
        from turnstone.store.sessions.turns import TurnStore

        # a Lambda has one reader at a time, and each read costs money
        directory = self._registries.directory
        return TurnStore(self._ports.store, directory, leaves_long_texts=not self._is_on_lambda)

    @cached_property
    def leases(self) -> LeaseKeeper:
        from turnstone.services.turns.leases import LeaseKeeper

        return LeaseKeeper(self.turn_store, self._ports.clock, timedelta(seconds=self._settings.lease_seconds))

    @cached_property
    def executor(self) -> TurnExecutor:
        from turnstone.services.threads.executor import TurnExecutor
        from turnstone.services.threads.slots import NO_QUEUE

        limits = self._queue_limits or NO_QUEUE
        return TurnExecutor(self._settings.max_running_turns, self._settings.tenant_turns, limits)

    @cached_property
    def broadcasts(self) -> Broadcasts:
        from turnstone.services.streams.broadcast import Broadcasts

        return Broadcasts()

    @cached_property
    def _stores(self) -> tuple[SessionStore, AgentStore]:
        from turnstone.store.agents.agents import AgentStore
        from turnstone.store.sessions.sessions import SessionStore

        return SessionStore(self._ports.store), AgentStore(self._ports.store)

    @cached_property
    def _completion_store(self) -> StoredCompletionStore:
        from turnstone.store.models.stored_completions import StoredCompletionStore

        return StoredCompletionStore(self._ports.store)

    @cached_property
    def _runs_here(self) -> LocalRuns:
        from turnstone.services.turns.local_runs import LocalRuns

        return LocalRuns(self.leases, self.broadcasts)

    @cached_property
    def _following(self) -> Following:
        from turnstone.services.streams.following import Following

        return Following(self.turn_store, self.broadcasts, FOLLOW_S)

    @cached_property
    def _registries(self) -> Registries:
        from turnstone.bootstrap.registries import Registries

        return Registries(self._ports, self._settings, lambda: self.executor)

    @cached_property
    def _rules(self) -> AccessRules:
        from turnstone.services.access.access import AccessRules

        return AccessRules(owner_only=self._settings.owner_only)

    @cached_property
    def _refuse(self) -> Callable[[str, AgentConfig], None]:
        from turnstone.services.agents.refusals import refuse_at_creation, refuse_many_iterations
        from turnstone.services.tools.tenant_tools import offered_at_creation

        offered = partial(offered_at_creation, self._registries.toolgroup_lookup, self._ports.tools)
        routing = self._registries.routing

        def refuse(tenant: str, config: AgentConfig) -> None:
            refuse_many_iterations(config.max_infer_iters, self._settings.max_infer_iters)
            refuse_at_creation(config, offered)
            routing.refuse_unknown(tenant, config.model)

        return refuse

    @cached_property
    def _runner(self) -> TurnRunner:
        from turnstone.services.turns.running import TurnRunner

        return TurnRunner(self._runner_deps)

    @cached_property
    def _runner_deps(self) -> RunnerDeps:
        from turnstone.bootstrap.spending import build_limits, build_summarizer
        from turnstone.services.turns.run_request import RunnerDeps

        return RunnerDeps(
            turns=self.turn_store,
            inference=self._ports.inference,
            tools=self._registries.toolboxes,
            shields=self._registries.shieldings,
            supervisor=self._ports.supervisor,
            clock=self._ports.clock,
            ids=self._ports.ids,
            leases=self.leases,
            broadcasts=self.broadcasts,
            context_tokens=self._settings.context_tokens,
            await_duration=timedelta(seconds=self._settings.await_seconds),
            limits=build_limits(self._ports, self._settings),
            summarizer=build_summarizer(self.turn_store, self._settings),
            route=self._registries.routing.route,
            follow=self._following.follow,
            tidies_up=not self._is_on_lambda,
        )
