"""Agents in the store: each under its own key, and a small projection in the list of its tenant."""

from datetime import datetime

from pydantic_core import to_json

from turnstone.domain.agents import Agent
from turnstone.domain.attempts import Attempt
from turnstone.domain.errors import NotFound
from turnstone.ports import Absent, Operation, Put, RangeStore, Record
from turnstone.store.frames import frame, wire_part
from turnstone.store.idempotency import Once
from turnstone.store.keys import agent_key, agent_list_key

ACTIVE = "active"


class AgentStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, agent: Agent, order: str, attempt: Attempt, now: datetime) -> str:
        """Store the agent and return its id, or the id the same request was answered with before."""
        writes: list[Operation] = [
            Put(
                agent_key(tenant, agent.agent_id),
                frame({"order": order}, agent.model_dump_json().encode()),
                {"status": ACTIVE},
                when=(Absent(),),
            ),
            Put(agent_list_key(tenant, order), _projection(agent), when=(Absent(),)),
        ]
        return Once(tenant, attempt, {"agent_id": agent.agent_id}, now).write(self._store, writes)["agent_id"]

    def get(self, tenant: str, agent_id: str) -> Agent:
        """Return the agent. Raises NotFound."""
        return agent_of(self._store.get(agent_key(tenant, agent_id)), agent_id)


def agent_of(record: Record | None, agent_id: str) -> Agent:
    """Return the agent the record holds. Raises NotFound if there is none."""
    if record is None:
        raise NotFound("agent", agent_id)
    return Agent.model_validate_json(wire_part(record.body))


def _projection(agent: Agent) -> bytes:
    return to_json({"agent_id": agent.agent_id, "name": agent.agent_config.name, "created_at": agent.created_at})
