"""The implicit agent: no record, the same for every tenant, with sessions of any caller.

It answers the requests of dialects whose clients name a model and no agent; each of its turns has a snapshot of the
configuration. It is not among the agents of the Agents API.
"""

from datetime import UTC, datetime
from functools import cache

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import Agent, AgentConfig
from turnstone.ports.records import Record
from turnstone.store.agents.agents import StoredAgent, agent_of, owner_of_agent

IMPLICIT = "responses"  # no id that this server makes is like it


def is_implicit(agent_id: str) -> bool:
    """Return whether it is the id of an agent without a record."""
    return agent_id == IMPLICIT


def answering_agent(record: Record | None, agent_id: str) -> StoredAgent:
    """Return the agent whose session it is. Raises NotFound without a record, except for an implicit one."""
    return _implicit() if is_implicit(agent_id) else agent_of(record, agent_id)


def owner_of_answering(record: Record | None, agent_id: str) -> Ownership:
    """Return the agent's owner and access list, as `answering_agent` does."""
    return _implicit().stamp if is_implicit(agent_id) else owner_of_agent(record, agent_id)


@cache
def _implicit() -> StoredAgent:
    config = AgentConfig(model="", instructions="", enable_session_persistence=True)
    agent = Agent(agent_id=IMPLICIT, agent_config=config, created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return StoredAgent(agent, "", Ownership())
