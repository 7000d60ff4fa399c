"""Which session, and which turn: what a path names, before anything of it is read."""

from __future__ import annotations

from turnstone.domain.values.frozen import Frozen


class SessionRef(Frozen):
    """Which session: the address of its partition."""

    tenant: str
    agent_id: str
    session_id: str

    def turn(self, turn_id: str) -> TurnRef:
        """Return the address of one of its turns."""
        return TurnRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=turn_id)


class TurnRef(SessionRef):
    """Which turn of which session."""

    turn_id: str

    @property
    def session(self) -> SessionRef:
        return SessionRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id)
