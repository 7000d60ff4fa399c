"""Threads that run turns, apart from those that answer requests: a turn continues when its client leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Lock, local
from typing import TypeVar

from turnstone.domain.errors import Overloaded
from turnstone.domain.values.outcome import Raised, guarded
from turnstone.services.threads.slots import NO_QUEUE, QueueLimits, Slots, Waiter

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class TurnExecutor:
    """Runs at most one turn per slot: further ones wait for a slot, and are refused after a timeout."""

    def __init__(self, capacity: int, share: int | None = None, limits: QueueLimits = NO_QUEUE) -> None:
        """Run nothing yet; without a share a tenant may take all slots."""
        self._slots = Slots(capacity, capacity if share is None else share, limits)
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(max_workers=capacity, thread_name_prefix="turn")
        self._running: set[Future[None]] = set()
        self._of_request = local()

    @property
    def taken(self) -> int:
        """Number of taken slots."""
        return self._slots.taken

    @property
    def queued(self) -> int:
        """Number of requests that wait for a slot."""
        return self._slots.queued

    @property
    def wait_s(self) -> float:
        """Longest wait of a request for a slot."""
        return self._slots.limits.wait_s

    @contextmanager
    def permit(self, tenant: str, *, comes_first: bool = False) -> Iterator[Permit]:
        """Take a permit for a turn or a model request of the tenant; it is released unless a turn was started by it.

        Never waits: a refused caller may wait by `queue`, and repeat the call `within` the permit that it receives.
        `comes_first` gives priority over other requests of the tenant.

        Raises:
            Overloaded: all slots are taken, or the share of this tenant.
        """
        waited_for: Permit | None = getattr(self._of_request, "permit", None)
        if waited_for is not None and not waited_for.is_used:
            yield waited_for
            return
        try:
            self._slots.take(tenant)
        except Overloaded as full:
            full.comes_first = comes_first
            raise
        permit = Permit(self, tenant)
        try:
            yield permit
        finally:
            permit.release_if_unused()

    def queue(
        self, tenant: str, settle: Callable[[Waiter], None], *, size_bytes: int | None = None, comes_first: bool = False
    ) -> Waiter:
        """Wait for a slot without a thread: `settle` is called, maybe at once, when there is one or the server stops.

        The caller has to `leave`, or to work `within` the slot. For `size_bytes` see Waiter.

        Raises:
            Overloaded: the queue is full, or there is none.
        """
        waiter = Waiter(tenant, settle, size_bytes, comes_first=comes_first)
        self._slots.join(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Stop waiting; a slot that the waiter received in the meantime is released."""
        self._slots.leave(waiter)

    def refusal(self, waiter: Waiter) -> Overloaded:
        """Return why the waiter, which has left, had no slot."""
        return self._slots.refusal(waiter)

    def within(self, waiter: Waiter, act: Callable[[], Result]) -> Result:
        """Return the result of `act`, in which `permit` yields the waiter's; an unused permit is released.

        The act must take its permit in this thread.
        """
        self._of_request.permit = permit = Permit(self, waiter.tenant)
        try:
            return act()
        finally:
            del self._of_request.permit
            permit.release_if_unused()

    def release(self, tenant: str) -> None:
        """Release a slot of the tenant. For permits."""
        self._slots.release(tenant)

    def refuse_more(self) -> int:
        """Refuse new and waiting turns; return the number of running ones."""
        self._slots.stop()
        with self._lock:
            return len(self._running)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the running turns, the handling of crashes included; return whether all ended in time."""
        with self._lock:
            running = set(self._running)
        return not wait(running, timeout_s).not_done

    def start(self, run: Callable[[], None], on_end: Callable[[BaseException | None], None]) -> None:
        """Run in a thread, for a permit; `on_end` is called there with the exception of the run, or None.

        Raises:
            Overloaded: the machine has no thread for the run, which did not begin and will not.
        """
        ended: Future[None] = Future()
        with self._lock:
            self._running.add(ended)
        try:
            self._pool.submit(partial(self._run, run, on_end, ended))
        except RuntimeError as no_thread:  # the pool keeps the work for a thread that it may get later
            if ended.cancel():
                self._forget(ended)
                raise Overloaded(self._slots.taken) from no_thread

    def _run(
        self, run: Callable[[], None], on_end: Callable[[BaseException | None], None], ended: Future[None]
    ) -> None:
        if not ended.set_running_or_notify_cancel():
            return
        outcome = guarded(run)
        reported = guarded(partial(on_end, outcome.error if isinstance(outcome, Raised) else None))
        if isinstance(reported, Raised):
            log.error("the end of a run could not be handled", exc_info=reported.error)
        self._forget(ended)
        ended.set_result(None)

    def _forget(self, ended: Future[None]) -> None:
        with self._lock:
            self._running.discard(ended)


class Permit:
    """A slot of the executor, taken before the turn is stored so that no stored turn lacks one."""

    def __init__(self, executor: TurnExecutor, tenant: str) -> None:
        self._executor = executor
        self._tenant = tenant
        self._lock = Lock()
        self._is_released = False
        self.is_used = False

    def start(self, run: Callable[[], None], on_crash: Callable[[BaseException], None]) -> None:
        """Run in a thread of its own. `on_crash` is called with an unexpected exception.

        Raises:
            Overloaded: the machine has no thread; the permit is unused.
        """

        def ended(crash: BaseException | None) -> None:
            self.release()
            if crash is not None:
                log.error("a turn crashed", exc_info=crash)
                on_crash(crash)

        self._executor.start(run, ended)
        self.is_used = True

    def release_if_unused(self) -> None:
        if not self.is_used:
            self.release()

    def release(self) -> None:
        """Release the slot; a second call does nothing."""
        with self._lock:
            is_first = not self._is_released
            self._is_released = True
        if is_first:
            self._executor.release(self._tenant)
