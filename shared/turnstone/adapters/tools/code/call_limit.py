"""Limit of concurrent calls, fair among tenants: further calls wait for a slot, each for a bounded time."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Lock
from typing import TYPE_CHECKING

from turnstone.domain.errors import ToolFailed

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

ANSWERED_WITHIN = 0.9  # part of a delayed call's time: its code ends while the caller still accepts the result


class _Waiter:
    """A waiting call. `is_settled` is set when it has a slot, or when its caller is cancelled."""

    def __init__(self) -> None:
        self.is_settled = Event()
        self.has_slot = False


class CallLimit:
    """A fixed number of slots. A free one goes to the tenant with the fewest, in turns among equals.

    One tenant never holds all of them if there are two or more: a quarter, and at least one, is left to others.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._share = max(1, most - max(1, most // 4))
        self._lock = Lock()
        self._held = Counter[str]()
        self._waiting: dict[str, deque[_Waiter]] = {}

    @contextmanager
    def slot(self, tenant: str, wait_s: float, stop: StopSignal | None) -> Iterator[float]:
        """Hold a slot within the block; yield the seconds waited for it, 0 if it was free.

        Raises:
            ToolFailed: no slot became free in time, or the call was cancelled while waiting.
        """
        waiter = _Waiter()
        began = time.monotonic()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(waiter)
            self._admit()
            is_free = waiter.has_slot
        try:
            if not is_free:
                self._wait(waiter, wait_s, stop)
            yield 0.0 if is_free else time.monotonic() - began
        finally:
            with self._lock:
                self._leave(tenant, waiter)

    def _wait(self, waiter: _Waiter, wait_s: float, stop: StopSignal | None) -> None:
        with ExitStack() as stack:
            if stop is not None:
                stack.enter_context(stop.heeded_by(waiter.is_settled.set))
            waiter.is_settled.wait(wait_s)
        if waiter.has_slot:
            return
        if stop is not None and stop.is_set:
            raise ToolFailed("the code was not run: the call was cancelled while it waited for a place")
        calls = "one call" if self.most == 1 else f"{self.most} calls"
        raise ToolFailed(
            f"the code was not run: it waited {wait_s:g} s for a place, and {calls} at a time may run here; "
            "call the tool again later"
        )

    def _leave(self, tenant: str, waiter: _Waiter) -> None:
        if waiter.has_slot:
            self._held[tenant] -= 1
            self._held += Counter()  # drops tenants without slots
            self._admit()
            return
        queue = self._waiting[tenant]
        queue.remove(waiter)
        if not queue:
            del self._waiting[tenant]

    def _admit(self) -> None:
        """Assign free slots to waiting calls."""
        while self._held.total() < self.most:
            eligible = [tenant for tenant in self._waiting if self._held[tenant] < self._share]
            if not eligible:
                return
            tenant = min(eligible, key=self._held.__getitem__)  # among several, the first in the queue
            queue = self._waiting.pop(tenant)
            waiter = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # after the others
            self._held[tenant] += 1
            waiter.has_slot = True
            waiter.is_settled.set()


@contextmanager
def held_slot(
    limit: CallLimit | None, tenant: str, timeout_s: float, code_timeout_s: float, stop: StopSignal | None
) -> Iterator[float]:
    """Hold a slot within the block, if there is a limit; yield the seconds that the code may take.

    A delayed call keeps the code's timeout, or half of its own. Raises as `CallLimit.slot` does.
    """
    if limit is None:
        yield min(code_timeout_s, timeout_s)
        return
    wait_s = max(timeout_s * ANSWERED_WITHIN - code_timeout_s, timeout_s / 2)
    with limit.slot(tenant, wait_s, stop) as waited_s:
        left_s = timeout_s * ANSWERED_WITHIN - waited_s if waited_s else timeout_s
        yield min(code_timeout_s, left_s)
