"""Requests of the Agents API of September 2024 for a turn, or for a step of one.

Source: the wire of `llama-stack-client` 0.0.40.
"""

from turnstone.dialects.llama_stack_2024.requests import AgentNamed
from turnstone.domain.refs import TurnRef


class TurnNamed(AgentNamed):
    """A turn; clients of that time did not send its session, so it is searched in all sessions of the agent."""

    session_id: str | None = None
    turn_id: str

    def ref(self, tenant: str) -> TurnRef | None:
        """Return the reference to the turn, None without its session."""
        if self.session_id is None:
            return None
        return TurnRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=self.turn_id)


class StepNamed(TurnNamed):
    step_id: str
