"""Agents: create and read."""

from collections.abc import Callable

from turnstone.domain.agents import Agent, AgentConfig
from turnstone.domain.attempts import Attempt
from turnstone.domain.caller import Caller
from turnstone.ports import Clock, IdGenerator
from turnstone.store.agents import AgentStore


class Agents:
    def __init__(
        self, store: AgentStore, refuse_unsupported: Callable[[AgentConfig], None], clock: Clock, ids: IdGenerator
    ) -> None:
        """Take what refuses a configuration as a function: who only reads agents needs not load it."""
        self._store = store
        self._refuse_unsupported = refuse_unsupported
        self._clock = clock
        self._ids = ids

    def create(self, caller: Caller, config: AgentConfig, attempt: Attempt) -> str:
        """Return the new agent's id. Raises Unsupported, InvalidRequest, IdempotencyMismatch."""
        self._refuse_unsupported(config)
        now = self._clock.now()
        agent = Agent(agent_id=self._ids.new_id(), agent_config=config, created_at=now)
        return self._store.create(caller.tenant, agent, self._ids.order_key(now, None), attempt, now)

    def get(self, caller: Caller, agent_id: str) -> Agent:
        """Return the agent. Raises NotFound."""
        return self._store.get(caller.tenant, agent_id)
