"""Supervisor of one machine: one thread that reconciles each watched turn when it is due.

It keeps no state: the store's open index survives a restart, and is read again at start.
"""

import heapq
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import Condition, Thread

from turnstone.domain.errors import RecordTooNew, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import SessionLock
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.ports.system import Clock

log = logging.getLogger(__name__)
RETRY_AFTER = timedelta(seconds=5)
RETRY_OF_NEWER_AFTER = timedelta(minutes=5)  # of a turn that only a newer version can reconcile

Reconciler = Callable[[TurnRef], datetime | None]


class LocalSupervisor:
    """Watches turns in this process. `start` supplies the function that reconciles a turn and returns its next run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._due: list[tuple[float, int, TurnRef]] = []  # a monotonic clock
        self._pushed = count()
        self._earliest: dict[TurnRef, float] = {}
        self._is_closed = False
        self._thread: Thread | None = None

    def start(self, reconcile: Reconciler, open_turns: Iterable[TurnRef]) -> None:
        """Start to reconcile, first the turns left open by the last process."""
        now = self._clock.now()
        for ref in open_turns:
            self._schedule_at(ref, now)
        self._thread = Thread(target=self._reconcile_forever, args=(reconcile,), name="supervisor", daemon=True)
        self._thread.start()

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        self._schedule_at(turn, lock.check_at() or self._clock.now())

    def wake(self, token: str) -> None:
        """Do nothing: the local supervisor has no waits with a token."""

    def _schedule_at(self, turn: TurnRef, at: datetime) -> None:
        left_s = (at - self._clock.now()).total_seconds()
        due_s = self._clock.monotonic_s() + left_s
        with self._changed:
            scheduled = self._earliest.get(turn)
            if scheduled is not None and scheduled <= due_s:
                return
            self._earliest[turn] = due_s
            heapq.heappush(self._due, (due_s, next(self._pushed), turn))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _reconcile_forever(self, reconcile: Reconciler) -> None:
        while (turn := self._next_due()) is not None:
            match guarded(partial(reconcile, turn)):
                case Raised(error):
                    unexpected = None if isinstance(error, StoreUnavailable) else error
                    log.warning("could not reconcile turn %s, retrying: %s", turn.turn_id, error, exc_info=unexpected)
                    later = RETRY_OF_NEWER_AFTER if isinstance(error, RecordTooNew) else RETRY_AFTER
                    self._schedule_at(turn, self._clock.now() + later)
                case Returned(again_at) if again_at is not None:
                    self._schedule_at(turn, again_at)

    def _next_due(self) -> TurnRef | None:
        """Wait for the next due turn and remove it; None once closed."""
        with self._changed:
            while not self._is_closed:
                if not self._due:
                    self._changed.wait()
                    continue
                due_s, _, turn = self._due[0]
                wait_s = due_s - self._clock.monotonic_s()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                heapq.heappop(self._due)
                if self._earliest.get(turn) == due_s:
                    del self._earliest[turn]
                    return turn
            return None
