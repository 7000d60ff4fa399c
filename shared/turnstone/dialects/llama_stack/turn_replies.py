"""Answers of the Llama Stack API that hold turns or steps and are not domain values themselves.

Source: the types of `llama-stack-client` 0.2.12.
"""

from pydantic_core import to_json

from turnstone.domain.model import Frozen
from turnstone.domain.sessions import Session
from turnstone.domain.turns import Step, Turn


class SessionWithTurns(Frozen):
    """A session as read; its turns are written into it one by one, see `session_frame`."""

    session_id: str
    session_name: str
    turns: tuple[Turn, ...]
    started_at: str


class StepReply(Frozen):
    step: Step


def session_frame(session: Session) -> tuple[bytes, bytes]:
    """Return what comes before and after the turns in a session's JSON."""
    head = {"session_id": session.session_id, "session_name": session.session_name}
    tail = {"started_at": session.started_at}
    return to_json(head)[:-1] + b',"turns":[', b"]," + to_json(tail)[1:]
