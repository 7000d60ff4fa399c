"""The supervisor of one machine: a thread that attends to each watched turn when it is due.

It keeps nothing itself: what must survive a restart is in the store's open index, which is read again at start.
"""

import heapq
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import Condition, Thread

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import SessionLock
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.ports.system import Clock

log = logging.getLogger(__name__)
RETRY_AFTER = timedelta(seconds=5)

Attend = Callable[[TurnRef], datetime | None]


class LocalSupervisor:
    """Watches turns in this process. What attends to a turn, and says when to look again, comes with `start`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._due: list[tuple[float, int, TurnRef]] = []  # by a clock that nobody sets
        self._pushed = count()
        self._earliest: dict[TurnRef, float] = {}
        self._is_closed = False
        self._thread: Thread | None = None

    def start(self, attend: Attend, open_turns: Iterable[TurnRef]) -> None:
        """Begin to attend, to the turns that were open when the last process ended first of all."""
        now = self._clock.now()
        for ref in open_turns:
            self._attend_at(ref, now)
        self._thread = Thread(target=self._attend_forever, args=(attend,), name="supervisor", daemon=True)
        self._thread.start()

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        self._attend_at(turn, lock.look_again_at() or self._clock.now())

    def wake(self, token: str) -> None:
        """Nothing waits with a token here."""

    def _attend_at(self, turn: TurnRef, at: datetime) -> None:
        left_s = (at - self._clock.now()).total_seconds()
        due_s = self._clock.monotonic_s() + left_s
        with self._changed:
            known = self._earliest.get(turn)
            if known is not None and known <= due_s:
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

    def _attend_forever(self, attend: Attend) -> None:
        while (turn := self._next_due()) is not None:
            match guarded(partial(attend, turn)):
                case Raised(error):
                    unexpected = None if isinstance(error, StoreUnavailable) else error
                    log.warning("turn %s is not attended to yet: %s", turn.turn_id, error, exc_info=unexpected)
                    self._attend_at(turn, self._clock.now() + RETRY_AFTER)
                case Returned(again_at) if again_at is not None:
                    self._attend_at(turn, again_at)

    def _next_due(self) -> TurnRef | None:
        """Wait for the next turn that is due and forget it; None once closed."""
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
