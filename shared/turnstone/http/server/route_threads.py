"""Where the blocking work of requests is done: by one thread as long as it is quick."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from turnstone.http.errors import outcome_of

PATIENCE_S = 0.05  # longer than it takes to read what is sent of a long session at once
Result = TypeVar("Result")


class RouteThreads:
    """Does one piece of work after the other; a slow one is passed by, in another thread while there are any.

    Threads that read a database at the same time hand the interpreter's lock to and fro at each row: with eight
    clients that took half of the processor time, measured. Tenants take turns, and none occupies all threads, so that
    a tenant whose work is slow, or much, delays its own work only.
    """

    def __init__(self, most_threads: int, name: str, most_for_one: int | None = None) -> None:
        """Begin no thread yet; without `most_for_one` a tenant may occupy all threads."""
        self._most_threads = most_threads
        self._most_for_one = most_threads if most_for_one is None else most_for_one
        self._pool = ThreadPoolExecutor(most_threads, thread_name_prefix=name)
        self._changing = Lock()
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()  # by tenant, the next one to be served first
        self._under_way: Counter[str] = Counter()
        self._threads = 0
        self._in_front: _Hand | None = None
        self._watched_by: AbstractEventLoop | None = None

    async def do(
        self, call: Callable[..., Result], *arguments: Any, on_behalf_of: str = "", comes_first: bool = False
    ) -> Result:
        """Return the result of the call, made on behalf of a tenant, before its other calls if it comes first.

        Raises what the call raises.
        """
        loop = asyncio.get_running_loop()
        work = _Work(partial(call, *arguments), loop, on_behalf_of)
        with self._changing:
            waiting = self._waiting.get(on_behalf_of)
            if waiting is None:
                waiting = self._waiting[on_behalf_of] = deque()
            (waiting.appendleft if comes_first else waiting.append)(work)
            is_begun = self._in_front is None and self._may_begin() and self._begin()
        if not is_begun and self._watched_by is not loop:
            self._watch(loop)
        result: Result = await work.future
        return result

    def submit(self, call: Callable[[], None]) -> None:
        """Have the call done in a thread of its own, and don't wait for it."""
        self._pool.submit(call)

    def _may_begin(self) -> bool:
        """Tell whether a thread is left, and work that it may do."""
        return self._threads < self._most_threads and self._next_tenant() is not None

    def _next_tenant(self) -> str | None:
        """Return the tenant whose work comes next, None if all that have some occupy their share of the threads."""
        return next((tenant for tenant in self._waiting if self._under_way[tenant] < self._most_for_one), None)

    def _begin(self) -> bool:
        """Have one more thread work, in front of those that were passed by; tell whether there is one to be had."""
        self._threads += 1
        self._in_front = hand = _Hand()
        try:
            self._pool.submit(self._work, hand)
        except RuntimeError:  # the machine has no more threads now: the pool keeps the call for the next it can start
            return False
        return True

    def _work(self, hand: _Hand) -> None:
        work: _Work | None = None
        while (work := self._next(hand, work)) is not None:
            work.do()

    def _next(self, hand: _Hand, done: _Work | None) -> _Work | None:
        """Return the next work of the thread after the done one, None if the thread is to end."""
        with self._changing:
            if done is not None:
                self._end(done.tenant)
            is_in_front = hand is self._in_front
            if is_in_front and (tenant := self._next_tenant()) is not None:
                hand.taken += 1
                return self._taken_from(tenant)
            self._threads -= 1
            if is_in_front:
                self._in_front = None
            elif self._in_front is None and self._may_begin():
                self._begin()
            return None

    def _taken_from(self, tenant: str) -> _Work:
        """Return the tenant's oldest work, which is under way from now on; the tenant's turn comes again last."""
        waiting = self._waiting[tenant]
        work = waiting.popleft()
        self._under_way[tenant] += 1
        if waiting:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        return work

    def _end(self, tenant: str) -> None:
        self._under_way[tenant] -= 1
        if not self._under_way[tenant]:
            del self._under_way[tenant]

    def _watch(self, loop: AbstractEventLoop) -> None:
        """Look again in a while whether the thread in front gets on, as long as any work waits."""
        self._watched_by = loop
        hand = self._in_front
        loop.call_later(PATIENCE_S, self._look, loop, hand, hand.taken if hand else 0)

    def _look(self, loop: AbstractEventLoop, hand: _Hand | None, taken: int) -> None:
        with self._changing:
            if not self._waiting:
                self._watched_by = None
                return
            if hand is not None and hand is self._in_front and hand.taken == taken:
                self._in_front = None
            if self._in_front is None and self._may_begin():
                self._begin()
        self._watch(loop)


class _Hand:
    """A thread's position among those of the route.

    Attributes:
        taken: how many pieces of work it has begun.
    """

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class _Work:
    """One piece of work, its tenant, and the future that a loop awaits."""

    __slots__ = ("_call", "_loop", "future", "tenant")

    def __init__(self, call: Callable[[], Any], loop: AbstractEventLoop, tenant: str) -> None:
        self._call = call
        self._loop = loop
        self.tenant = tenant
        self.future = loop.create_future()

    def do(self) -> None:
        result, error = outcome_of(self._call)
        with suppress(RuntimeError):  # the loop is closed when the server stops before its work is done
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        if self.future.cancelled():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)
