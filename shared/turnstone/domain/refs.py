"""References to sessions and turns, as a path names them."""

from __future__ import annotations

from turnstone.domain.values.frozen import Frozen


class SessionRef(Frozen):
    """Reference to a session: the address of its partition."""

    tenant: str
    agent_id: str
    session_id: str

    def turn(self, turn_id: str) -> TurnRef:
        """Return the reference to a turn of the session."""
        return TurnRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=turn_id)


class TurnRef(SessionRef):
    """Reference to a turn of a session."""

    turn_id: str

    @property
    def session(self) -> SessionRef:
        return SessionRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id)
