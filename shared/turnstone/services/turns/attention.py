"""Telling the supervisor what somebody else has found out about a session's open turn."""

import logging

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import Session
from turnstone.ports import Clock, Supervisor

log = logging.getLogger(__name__)


def attend_if_due(supervisor: Supervisor, clock: Clock, ref: SessionRef, session: Session) -> None:
    """Have the session's open turn attended to if its process is gone or its client's deadline is over."""
    now = clock.now()
    lock = session.lock
    if lock.order is None or not (lock.is_abandoned(now) or lock.is_overdue(now)):
        return
    try:
        supervisor.watch(turn_of(ref, lock.order), lock)
    except StoreUnavailable as unavailable:
        log.warning("turn %s is left to whoever comes next: %s", lock.order, unavailable)


def wake(supervisor: Supervisor, token: str | None) -> None:
    """Tell the supervisor that waits for the client that it need not; it finds out by itself, too, but later."""
    if token is None:
        return
    try:
        supervisor.wake(token)
    except StoreUnavailable as unavailable:
        log.warning("a supervisor was not woken: %s", unavailable)


def turn_of(ref: SessionRef, turn_id: str) -> TurnRef:
    return TurnRef(tenant=ref.tenant, agent_id=ref.agent_id, session_id=ref.session_id, turn_id=turn_id)
