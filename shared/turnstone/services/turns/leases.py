"""The leases of the turns that this process runs, renewed by one thread, and the end of such runs."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Condition, Lock, Thread
from typing import NamedTuple

from turnstone.domain.errors import LeaseLost, NotFound, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.system import Clock
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import gone_event
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)
RENEWALS_PER_LEASE = 3
MOST_WATCHED = 1_000


class Lease:
    """The right to write to a turn, as this process believes to hold it.

    `in_hand` is held while the lease is renewed, released or lost to a cancellation; a run that ends without its lease
    publishes only afterwards. `stop` is set when the lease is lost, when its turn has run until `runs_until_s` of the
    monotonic clock, and when a turn that is not stored has lost its client.
    """

    def __init__(self, ref: TurnRef, fence: int, runs_until_s: float | None = None) -> None:
        self.ref = ref
        self.fence = fence
        self.runs_until_s = runs_until_s
        self.is_lost = False
        self.is_out_of_time = False
        self.is_abandoned = False
        self.stop = StopSignal()
        self.in_hand = Lock()

    def lose(self) -> None:
        """Stop the engine: now if it waits for its model, else at its next event."""
        self.is_lost = True
        self.stop.set()

    def abandon(self) -> None:
        """Stop the engine, because the client of a turn that is not stored has left."""
        self.is_abandoned = True
        self.stop.set()

    def stop_in_time(self, now_s: float) -> None:
        """Stop the engine if its turn has reached its time limit."""
        if self.runs_until_s is not None and now_s >= self.runs_until_s and not self.is_out_of_time:
            self.is_out_of_time = True
            self.stop.set()

    def check(self) -> None:
        """Raise LeaseLost if a renewal failed, so that the engine stops at its next event."""
        if self.is_lost:
            raise LeaseLost(self.ref.turn_id)


class _Watched(NamedTuple):
    fence: int
    lease_until: datetime
    over_at_s: float


class LeaseWatch:
    """Leases that end later than any lease granted now, each with the time at which it was first read.

    Every holder renews its lease several times within its duration. A lease that was not renewed for that long has
    expired, independent of the wall clock. Only a lease granted before the clock was set back needs a watch.
    """

    def __init__(self, clock: Clock, duration: timedelta) -> None:
        self._clock = clock
        self._duration = duration
        self._guard = Lock()
        self._watched: OrderedDict[TurnRef, _Watched] = OrderedDict()

    def seen(self, ref: TurnRef, lock: SessionLock, now: datetime) -> SessionLock:
        """Return the lock with a lease that ends once this process has watched it for a whole duration.

        Args:
            ref: the turn that holds the lock.
            lock: the lock as just read from the store.
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


class LeaseKeeper:
    """Renews every lease held through it, three times within its duration, while the turn runs."""

    def __init__(self, turns: TurnStore, clock: Clock, duration: timedelta) -> None:
        self._turns = turns
        self._clock = clock
        self.duration = duration
        self._watch = LeaseWatch(clock, duration)
        self._changed = Condition()
        self._held: set[Lease] = set()
        self._thread: Thread | None = None
        self._is_closed = False

    def take(self, ref: TurnRef, fence: int, runs_for_s: float | None = None) -> Lease:
        """Return a lease that is renewed from now on, until a `hold` of it ends.

        Its engine is stopped at the first renewal after `runs_for_s`.
        """
        runs_until_s = None if runs_for_s is None else self._clock.monotonic_s() + runs_for_s
        lease = Lease(ref, fence, runs_until_s)
        with self._changed:
            self._held.add(lease)
            if self._thread is None:
                self._thread = Thread(target=self._renew_forever, name="leases", daemon=True)
                self._thread.start()
        return lease

    @contextmanager
    def hold(self, lease: Lease) -> Iterator[None]:
        """Keep the lease alive within the block, and no longer."""
        try:
            yield
        finally:
            with self._changed:
                self._held.discard(lease)

    def find(self, ref: TurnRef) -> Lease | None:
        """Return the lease of the turn's run here, None if there is none, or it has ended."""
        with self._changed:
            return next((lease for lease in self._held if lease.ref == ref), None)

    def held(self) -> tuple[Lease, ...]:
        """Return the leases of all runs here."""
        with self._changed:
            return tuple(self._held)

    def is_held(self, ref: TurnRef, fence: int) -> bool:
        """Return whether this process runs the turn under that fence."""
        with self._changed:
            return any(lease.ref == ref and lease.fence == fence for lease in self._held)

    def seen(self, ref: TurnRef, lock: SessionLock, now: datetime) -> SessionLock:
        """Return the lock that was just read; for its lease see `LeaseWatch`."""
        return self._watch.seen(ref, lock, now)

    def release(self, lease: Lease) -> None:
        """Release the lease. The caller holds `lease.in_hand`; the run can no longer write.

        Raises:
            LeaseLost: the run has just ended, or was taken over.
        """
        with self._changed:
            self._held.discard(lease)
        lease.lose()
        self._turns.renew(lease.ref, lease.fence, self._clock.now())

    def close(self) -> None:
        """Stop renewing; leases that are still held expire."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _renew_forever(self) -> None:
        pause_s = self.duration.total_seconds() / RENEWALS_PER_LEASE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, pause_s)
                if self._is_closed:
                    return
                held = tuple(self._held)
            now_s = self._clock.monotonic_s()
            for lease in held:
                lease.stop_in_time(now_s)
                self._renew(lease)

    def _renew(self, lease: Lease) -> None:
        with lease.in_hand:
            if lease.is_lost:
                return
            try:
                self._turns.renew(lease.ref, lease.fence, self._clock.now() + self.duration)
            except LeaseLost:
                lease.lose()
            except StoreUnavailable as unavailable:
                log.warning("lease of turn %s not renewed, will be tried again: %s", lease.ref.turn_id, unavailable)


class LocalRuns:
    """The turns with a run or subscribers in this process."""

    def __init__(self, leases: LeaseKeeper, broadcasts: Broadcasts) -> None:
        self._leases = leases
        self._broadcasts = broadcasts

    def stop(self, is_gone: Callable[[TurnRef], bool]) -> None:
        """End the runs of deleted turns at their next event; notify their subscribers at once."""
        for lease in self._leases.held():
            if is_gone(lease.ref):
                with lease.in_hand:
                    lease.lose()
        for broadcast in self._broadcasts.all():
            if is_gone(broadcast.ref):
                missing = NotFound("session", broadcast.ref.session_id)
                self._broadcasts.end(broadcast, gone_event(missing, broadcast.ref.turn_id))
