"""Threads for the blocking work of requests: one thread as long as the work is quick."""

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

from turnstone.domain.values.lent_threads import note_lender
from turnstone.http.errors import outcome_of

PATIENCE_S = 0.05  # longer than reading one batch of a long session takes
MOST_ASIDE = 64  # threads of a family that wait for models beside those at work; a server has as many slots by default
Result = TypeVar("Result")


class ThreadBudget:
    """The threads of a family's routes: one reserved for each route, and some that whichever is slow may use.

    No number of slow calls of other routes, or of other kinds, keeps a route from its own thread: reads that hang
    don't prevent a turn from being cancelled. A tenant may use all but `spared` of the common threads. Threads that
    wait for a model are set aside, `MOST_ASIDE` at most: a slow model delays its own calls only.
    """

    def __init__(self, name: str, routes: int, common: int, spared: int = 0) -> None:
        """Create the budget of this many routes without starting a thread."""
        self.most_threads = routes + common
        self.pool = ThreadPoolExecutor(self.most_threads + MOST_ASIDE, thread_name_prefix=name)
        self.changing = Lock()
        self.aside = 0
        self.free = common
        self.most_for_one = common - spared
        self.taken: Counter[str] = Counter()  # by tenant, the work beyond one piece for each route


class RouteThreads:
    """An adaptive thread pool: one thread works in sequence, and another takes over while that one is slow.

    Threads that read a database in parallel contend for the interpreter's lock at each row: with eight clients that
    took half of the processor time, measured. Tenants take turns and none occupies all threads, so that a tenant with
    slow or much work delays its own work only.
    """

    def __init__(
        self, most_threads: int, name: str, most_for_one: int | None = None, budget: ThreadBudget | None = None
    ) -> None:
        """Create the pool without starting a thread; without `most_for_one` a tenant may occupy all threads.

        Without a budget of several routes, all of its threads are its own.
        """
        self._most_threads = most_threads
        self._most_for_one = most_threads if most_for_one is None else most_for_one
        self._budget = budget or ThreadBudget(name, 1, most_threads - 1)
        self._pool = self._budget.pool
        self._changing = self._budget.changing
        self._waiting: OrderedDict[str, deque[_Work]] = OrderedDict()  # by tenant, the next to be served first
        self._under_way: Counter[str] = Counter()
        self._threads = 0
        self._in_front: _Hand | None = None
        self._watched_by: AbstractEventLoop | None = None

    async def do(
        self, call: Callable[..., Result], *arguments: Any, on_behalf_of: str = "", comes_first: bool = False
    ) -> Result:
        """Return the result of the call on behalf of a tenant, ahead of its other calls if it comes first.

        Raises the errors of the call.
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
        """Run the call in a thread of its own without waiting for it."""
        self._pool.submit(call)

    def _may_begin(self) -> bool:
        """Return whether a thread is free and a tenant below its share has work."""
        has_thread = self._threads == 0 or (self._threads < self._most_threads and self._budget.free > 0)
        return has_thread and self._next_tenant() is not None

    def _next_tenant(self) -> str | None:
        """Return the tenant of the next work, None if every tenant with work occupies its share of the threads."""
        return next(filter(self._may_work_for, self._waiting), None)

    def _may_work_for(self, tenant: str) -> bool:
        under_way = self._under_way[tenant]
        if not under_way:
            return True
        return under_way < self._most_for_one and self._budget.taken[tenant] < self._budget.most_for_one

    def _begin(self) -> bool:
        """Start a thread in front of the slow ones; return whether the machine has one."""
        self._count_thread()
        self._in_front = hand = _Hand()
        try:
            self._pool.submit(self._work, hand)
        except RuntimeError:  # the machine has no more threads now: the pool keeps the call for the next it can start
            return False
        return True

    def _work(self, hand: _Hand) -> None:
        work: _Work | None = None
        try:
            while (work := self._next(hand, work)) is not None:
                note_lender(_Loan(self, work.tenant))
                work.do()
        finally:
            note_lender(None)

    def set_aside(self, tenant: str) -> bool:
        """Count one thread at work for the tenant less; return whether it was possible."""
        with self._changing:
            if self._budget.aside >= MOST_ASIDE:
                return False
            self._budget.aside += 1
            self._end(tenant)
            self._end_thread()
            if self._in_front is None and self._may_begin():
                self._begin()
            return True

    def take_back(self, tenant: str) -> None:
        """Count a thread that was set aside again."""
        with self._changing:
            self._budget.aside -= 1
            self._count_thread()
            self._count(tenant)

    def _next(self, hand: _Hand, done: _Work | None) -> _Work | None:
        """Return the thread's next work after the done one, None to end the thread."""
        with self._changing:
            if done is not None:
                self._end(done.tenant)
            is_in_front = hand is self._in_front
            if is_in_front and (tenant := self._next_tenant()) is not None:
                hand.taken += 1
                return self._taken_from(tenant)
            self._end_thread()
            if is_in_front:
                self._in_front = None
            elif self._in_front is None and self._may_begin():
                self._begin()
            return None

    def _taken_from(self, tenant: str) -> _Work:
        """Take the tenant's oldest work as under way, and move the tenant to the end of the queue."""
        waiting = self._waiting[tenant]
        work = waiting.popleft()
        self._count(tenant)
        if waiting:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        return work

    def _count_thread(self) -> None:
        self._budget.free -= self._threads > 0
        self._threads += 1

    def _end_thread(self) -> None:
        self._threads -= 1
        self._budget.free += self._threads > 0

    def _count(self, tenant: str) -> None:
        self._budget.taken[tenant] += self._under_way[tenant] > 0
        self._under_way[tenant] += 1

    def _end(self, tenant: str) -> None:
        self._under_way[tenant] -= 1
        if self._under_way[tenant]:
            self._budget.taken[tenant] -= 1
        else:
            del self._under_way[tenant]
        if not self._budget.taken[tenant]:
            del self._budget.taken[tenant]

    def _watch(self, loop: AbstractEventLoop) -> None:
        """Check the progress of the thread in front periodically, as long as work waits."""
        self._watched_by = loop
        hand = self._in_front
        loop.call_later(PATIENCE_S, self._check_progress, loop, hand, hand.taken if hand else 0)

    def _check_progress(self, loop: AbstractEventLoop, hand: _Hand | None, taken: int) -> None:
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
        taken: number of pieces of work that it has begun.
    """

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class _Loan:
    """A thread that was lent for work of a tenant."""

    __slots__ = ("_is_aside", "_tenant", "_threads")

    def __init__(self, threads: RouteThreads, tenant: str) -> None:
        self._threads = threads
        self._tenant = tenant
        self._is_aside = False

    def set_aside(self) -> None:
        self._is_aside = self._threads.set_aside(self._tenant)

    def take_back(self) -> None:
        if self._is_aside:
            self._threads.take_back(self._tenant)


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
