"""Runs of Letta's API: turns that run without their requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen

RUN_KIND = "run"


def turn_id_in(text: str) -> str:
    """Return the id of the turn in that of its run, which may lack the kind."""
    return text.removeprefix(f"{RUN_KIND}-")


class ListedRun(Frozen):
    """The address of a run, in the list of its tenant.

    Attributes:
        config: how its messages are shown, as the dialect stored it.
        ends_at: when it leaves the list.
    """

    agent_id: str
    session_id: str
    config: dict[str, Any] = {}
    ends_at: datetime
    stamp: Ownership

    def session_in(self, tenant: str) -> SessionRef:
        """Return the session of the run."""
        return SessionRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id)


class LettaRun(NamedTuple):
    """A run as it is now.

    Attributes:
        owner: the principal that began it, None without one.
        config: how its messages are shown, as the dialect stored it.
        is_queued: whether no process has run it yet.
        is_seen: whether the caller may see its content; one that may only delete it may not.
    """

    ref: TurnRef
    state: TurnState
    owner: str | None
    config: dict[str, Any]
    is_queued: bool
    is_seen: bool = True
