"""Dependencies shared by the services of several subjects."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstone.bootstrap.services.adapters import AnyPorts
    from turnstone.services.access.access import AccessRules
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.services.threads.slots import QueueLimits
    from turnstone.services.usage.limits import Limits
    from turnstone.settings.config import Settings
    from turnstone.store.agents.agents import AgentStore
    from turnstone.store.sessions.sessions import SessionStore


class Foundation:
    """The adapters and settings of a server, and parts built from them alone, each at its first use."""

    def __init__(
        self, ports: AnyPorts, settings: Settings, *, is_on_lambda: bool, queue_limits: QueueLimits | None
    ) -> None:
        self.ports = ports
        self.settings = settings
        self.is_on_lambda = is_on_lambda
        self._queue_limits = queue_limits

    @cached_property
    def rules(self) -> AccessRules:
        from turnstone.services.access.access import AccessRules

        return AccessRules(owner_only=self.settings.owner_only)

    @cached_property
    def executor(self) -> TurnExecutor:
        from turnstone.services.threads.executor import TurnExecutor
        from turnstone.services.threads.slots import NO_QUEUE

        limits = self._queue_limits or NO_QUEUE
        return TurnExecutor(self.settings.max_running_turns, self.settings.tenant_turns, limits)

    @cached_property
    def limits(self) -> Limits:
        """The limits of a turn, and of a tenant in a day."""
        from turnstone.services.usage.limits import DayLimit, Limits
        from turnstone.store.usage.usage import UsageStore

        settings = self.settings
        of_day = DayLimit(UsageStore(self.ports.store), self.ports.clock, settings.max_day_tokens)
        return Limits(settings.max_turn_tokens, of_day, settings.max_infer_iters, settings.max_turn_seconds)

    @cached_property
    def session_store(self) -> SessionStore:
        from turnstone.store.sessions.sessions import SessionStore

        return SessionStore(self.ports.store)

    @cached_property
    def agent_store(self) -> AgentStore:
        from turnstone.store.agents.agents import AgentStore

        return AgentStore(self.ports.store)
