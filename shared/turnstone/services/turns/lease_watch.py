"""Leases as this process may believe them, though the wall clock was set back since they were granted."""

from collections import OrderedDict
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.ports import Clock

MOST_WATCHED = 1_000


class _Watched(NamedTuple):
    fence: int
    lease_until: datetime
    over_at_s: float


class LeaseWatch:
    """Remembers leases that end later than any lease granted now, and since when.

    Every holder renews its lease several times within its duration. One that nobody renewed for that long is over,
    whatever the wall clock says. A lease that a clock granted which was not set back needs no watch.
    """

    def __init__(self, clock: Clock, duration: timedelta) -> None:
        self._clock = clock
        self._duration = duration
        self._guard = Lock()
        self._watched: OrderedDict[TurnRef, _Watched] = OrderedDict()

    def seen(self, ref: TurnRef, lock: SessionLock, now: datetime) -> SessionLock:
        """Return the lock as it was read just now, with a lease that ends when this process has watched it for long.

        Args:
            ref: the turn that holds the lock.
            lock: the lock as the store has it.
            now: the time by the wall clock.
        """
        until = lock.lease_until
        if lock.state is not LockState.RUNNING or until is None or until <= now + self._duration:
            return lock
        now_s = self._clock.monotonic_s()
        with self._guard:
            watched = self._watched.get(ref)
            if watched is None or (watched.fence, watched.lease_until) != (lock.fence, until):
                watched = _Watched(lock.fence, until, now_s + self._duration.total_seconds())
                self._watched[ref] = watched
                self._watched.move_to_end(ref)
                if len(self._watched) > MOST_WATCHED:
                    self._watched.popitem(last=False)
        return lock.model_copy(update={"lease_until": now + timedelta(seconds=watched.over_at_s - now_s)})
