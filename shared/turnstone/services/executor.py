"""Threads that run turns, apart from those that answer requests: a turn goes on when its client leaves."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Lock

from turnstone.domain.errors import Overloaded, TenantOverloaded

log = logging.getLogger(__name__)


class TurnExecutor:
    """Runs at most `capacity` turns at a time and refuses more, rather than let them queue behind slow models.

    A tenant runs its share of them at most, even while no other tenant asks: a place that a slow model holds could
    not be had back for a tenant that comes later.
    """

    def __init__(self, capacity: int, share: int | None = None) -> None:
        """Run nothing yet; without a share a tenant may take all places."""
        self._capacity = capacity
        self._share = capacity if share is None else share
        self._taken = 0
        self._taken_by: Counter[str] = Counter()
        self._lock = Lock()
        self._is_draining = False
        self._pool = ThreadPoolExecutor(max_workers=capacity, thread_name_prefix="turn")
        self._running: set[Future[None]] = set()

    @contextmanager
    def place(self, tenant: str) -> Iterator["Place"]:
        """Take a place for a turn or a question of the tenant; it is given back unless a turn was started in it.

        Raises:
            Overloaded: there is none left, for anybody or for this tenant.
        """
        with self._lock:
            if self._taken >= self._capacity or self._is_draining:
                raise Overloaded(self._capacity)
            if self._taken_by[tenant] >= self._share:
                raise TenantOverloaded(self._share, self._capacity)
            self._taken += 1
            self._taken_by[tenant] += 1
        place = Place(self._start, partial(self._give_back, tenant))
        try:
            yield place
        finally:
            if not place.is_used:
                place.give_back()

    def refuse_more(self) -> int:
        """Take no more turns; return how many run."""
        with self._lock:
            self._is_draining = True
            return len(self._running)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the running turns; tell whether all ended in time."""
        with self._lock:
            running = set(self._running)
        return not wait(running, timeout_s).not_done

    def _start(self, run: Callable[[], None], on_end: Callable[[BaseException | None], None]) -> None:
        future = self._pool.submit(run)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(lambda done: self._finished(done, on_end))

    def _finished(self, future: Future[None], on_end: Callable[[BaseException | None], None]) -> None:
        with self._lock:
            self._running.discard(future)
        on_end(future.exception())

    def _give_back(self, tenant: str) -> None:
        with self._lock:
            self._taken -= 1
            self._taken_by[tenant] -= 1
            if not self._taken_by[tenant]:
                del self._taken_by[tenant]


class Place:
    """A place in the executor, taken before the turn is stored so that no stored turn is left without one."""

    def __init__(
        self,
        start: Callable[[Callable[[], None], Callable[[BaseException | None], None]], None],
        give_back: Callable[[], None],
    ) -> None:
        self._start = start
        self._give_back = give_back
        self._lock = Lock()
        self._is_given_back = False
        self.is_used = False

    def start(self, run: Callable[[], None], on_crash: Callable[[BaseException], None]) -> None:
        """Run in a thread of its own. `on_crash` hears of an exception that nobody expected."""

        def ended(crash: BaseException | None) -> None:
            self.give_back()
            if crash is not None:
                log.error("a turn crashed", exc_info=crash)
                on_crash(crash)

        self._start(run, ended)
        self.is_used = True

    def give_back(self) -> None:
        """Let another turn have the place; nothing happens the second time."""
        with self._lock:
            is_first = not self._is_given_back
            self._is_given_back = True
        if is_first:
            self._give_back()
