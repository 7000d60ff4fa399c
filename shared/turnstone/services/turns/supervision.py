"""Telling the supervisor what somebody else has found out about a session's open turn."""

import logging

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock

log = logging.getLogger(__name__)


def attend_if_due(supervisor: Supervisor, clock: Clock, ref: SessionRef, session: Session) -> None:
    """Have the session's open turn attended to if its process is gone or its client's deadline is over."""
    now = clock.now()
    lock = session.lock
    if lock.order is None or not (lock.is_abandoned(now) or lock.is_overdue(now)):
        return
    try:
        supervisor.watch(ref.turn(lock.order), lock)
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
