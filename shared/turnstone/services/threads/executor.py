"""Threads that run turns, apart from those that answer requests: a turn goes on when its client leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

from turnstone.domain.errors import Overloaded
from turnstone.services.threads.places import NO_QUEUE, Places, QueueLimits, Waiter

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class TurnExecutor:
    """Runs a turn in each of its places, and no more: further ones wait for a place, and are refused in the end."""

    def __init__(self, capacity: int, share: int | None = None, limits: QueueLimits = NO_QUEUE) -> None:
        """Run nothing yet; without a share a tenant may take all places."""
        self._places = Places(capacity, capacity if share is None else share, limits)
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(max_workers=capacity, thread_name_prefix="turn")
        self._running: set[Future[None]] = set()
        self._of_request = local()

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._places.taken

    @property
    def queued(self) -> int:
        """How many requests wait for a place."""
        return self._places.queued

    @property
    def wait_s(self) -> float:
        """How long a request waits for a place at most."""
        return self._places.limits.wait_s

    @contextmanager
    def permit(self, tenant: str, *, comes_first: bool = False) -> Iterator[Permit]:
        """Take a permit for a turn or a question of the tenant; it is given back unless a turn was started by it.

        Never waits: whoever is refused may wait by `queue`, and do the same again `within` the permit it then has.
        `comes_first` is for what goes before other requests of the tenant.

        Raises:
            Overloaded: there is none left, for anybody or for this tenant.
        """
        waited_for: Permit | None = getattr(self._of_request, "permit", None)
        if waited_for is not None and not waited_for.is_used:
            yield waited_for
            return
        try:
            self._places.take(tenant)
        except Overloaded as full:
            full.comes_first = comes_first
            raise
        permit = Permit(self, tenant)
        try:
            yield permit
        finally:
            permit.give_back_if_unused()

    def queue(
        self, tenant: str, settle: Callable[[Waiter], None], *, size_bytes: int | None = None, comes_first: bool = False
    ) -> Waiter:
        """Wait for a place without a thread: `settle` is called once there is one, be it at once, or the server stops.

        Whoever waits has to `leave`, or to work `within` the place. For `size_bytes` see Waiter.

        Raises:
            Overloaded: as many wait as may, or nobody may.
        """
        waiter = Waiter(tenant, settle, size_bytes, comes_first=comes_first)
        self._places.join(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no more; a place that the waiter was given meanwhile is given back."""
        self._places.leave(waiter)

    def refusal(self, waiter: Waiter) -> Overloaded:
        """Return why the waiter, which has left, had no place."""
        return self._places.refusal(waiter)

    def within(self, waiter: Waiter, act: Callable[[], Result]) -> Result:
        """Return what the act returns, in which `permit` gives the waiter's; it is given back if it is not used.

        For an act that takes its place in this thread.
        """
        self._of_request.permit = permit = Permit(self, waiter.tenant)
        try:
            return act()
        finally:
            del self._of_request.permit
            permit.give_back_if_unused()

    def give_back(self, tenant: str) -> None:
        """Let another request have a place of the tenant's; for permits."""
        self._places.give_back(tenant)

    def refuse_more(self) -> int:
        """Take no more turns, and refuse those that wait for a place; return how many run."""
        self._places.stop()
        with self._lock:
            return len(self._running)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the running turns; tell whether all ended in time."""
        with self._lock:
            running = set(self._running)
        return not wait(running, timeout_s).not_done

    def start(self, run: Callable[[], None], on_end: Callable[[BaseException | None], None]) -> None:
        """Run in a thread, for a permit that counts; `on_end` is called with what the run raised, or None."""
        future = self._pool.submit(run)
        with self._lock:
            self._running.add(future)
        future.add_done_callback(lambda done: self._finished(done, on_end))

    def _finished(self, future: Future[None], on_end: Callable[[BaseException | None], None]) -> None:
        with self._lock:
            self._running.discard(future)
        on_end(future.exception())


class Permit:
    """A place in the executor, taken before the turn is stored so that no stored turn is left without one."""

    def __init__(self, executor: TurnExecutor, tenant: str) -> None:
        self._executor = executor
        self._tenant = tenant
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

        self._executor.start(run, ended)
        self.is_used = True

    def give_back_if_unused(self) -> None:
        if not self.is_used:
            self.give_back()

    def give_back(self) -> None:
        """Let another turn have the place; nothing happens the second time."""
        with self._lock:
            is_first = not self._is_given_back
            self._is_given_back = True
        if is_first:
            self._executor.give_back(self._tenant)
