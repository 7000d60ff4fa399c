"""Report an abandoned or overdue turn to the supervisor, best effort."""

import logging

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import Session, SessionLock
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock

log = logging.getLogger(__name__)


def watch_if_due(supervisor: Supervisor, clock: Clock, ref: SessionRef, session: Session) -> None:
    """Have the supervisor watch the session's open turn if its process is gone or its client's deadline is over.

    Also a queued one that no process has claimed in time.
    """
    now = clock.now()
    lock = session.lock
    if lock.order is None or not (lock.is_abandoned(now) or lock.is_overdue(now) or lock.is_unclaimed(now)):
        return
    watch(supervisor, ref.turn(lock.order), lock)


def watch(supervisor: Supervisor, ref: TurnRef, lock: SessionLock) -> None:
    """Have the supervisor watch the turn; without that its next reader does, or the sweeper."""
    try:
        supervisor.watch(ref, lock)
    except StoreUnavailable as unavailable:
        log.warning("turn %s is not watched, its next reader will report it: %s", ref.turn_id, unavailable)


def wake(supervisor: Supervisor, token: str | None) -> None:
    """Wake the supervisor that waits for the client; without the call it wakes by itself, but later."""
    if token is None:
        return
    try:
        supervisor.wake(token)
    except StoreUnavailable as unavailable:
        log.warning("a supervisor was not woken: %s", unavailable)
