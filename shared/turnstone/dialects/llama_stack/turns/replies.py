"""Answers of the Llama Stack API that hold turns or steps and are not domain values themselves.

Source: the types of `llama-stack-client` 0.2.12.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.turns import Step, Turn, TurnStatus
from turnstone.domain.values.frozen import Frozen

LostTurns = Annotated[
    tuple[str, ...],
    Field(
        description="Ids of turns whose content is lost; left out where there are none.",
        exclude_if=lambda turn_ids: not turn_ids,
    ),
]


class SessionWithTurns(Frozen):
    """A session for readers; its turns are written into it one by one, see `session_head`."""

    session_id: str
    session_name: str
    turns: tuple[Turn, ...]
    started_at: str
    vector_db_id: Annotated[str | None, Field(exclude_if=lambda name: name is None)] = None
    lost_turns: LostTurns = ()


class StepReply(Frozen):
    step: Step


class AcceptedTurn(Frozen):
    """A turn that runs in the background, and where to follow it.

    Attributes:
        status: `queued` until a process runs it.
        turn_url: the path of the turn on this server.
        events_url: the path of its events.
    """

    agent_id: str
    session_id: str
    turn_id: str
    status: Literal["queued"] | TurnStatus
    turn_url: str
    events_url: str

    @classmethod
    def of(cls, ref: TurnRef, status: TurnStatus, turn_url: str, *, is_queued: bool) -> Self:
        """Return the turn, whose URL is the beginning of that of its events."""
        return cls(
            agent_id=ref.agent_id,
            session_id=ref.session_id,
            turn_id=ref.turn_id,
            status="queued" if is_queued else status,
            turn_url=turn_url,
            events_url=f"{turn_url}/events",
        )


def session_head(session: Session) -> bytes:
    """Return the JSON of a session before the turns."""
    head = {"session_id": session.session_id, "session_name": session.session_name}
    return before_entries(head, "turns")


def session_tail(session: Session, lost_turns: Sequence[str]) -> bytes:
    """Return the JSON of a session after the turns."""
    tail: dict[str, Any] = {"started_at": session.started_at}
    if session.vector_db_id is not None:
        tail["vector_db_id"] = session.vector_db_id
    return after_entries({**tail, **({"lost_turns": lost_turns} if lost_turns else {})})
