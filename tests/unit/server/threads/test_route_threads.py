"""Blocking work of requests: one piece after the other while each is quick, past each that is slow.

Covers: http/server/route_threads, domain/values/lent_threads
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from threading import Barrier, Event, Lock, Thread, get_ident
from typing import Any

import pytest

from turnstone.domain.values.lent_threads import waiting_for_a_model
from turnstone.http.server.route_threads import PATIENCE_S, RouteThreads, ThreadBudget

SOON_S = 5.0
MOST = 3


def run(test: Callable[[RouteThreads], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(RouteThreads(MOST, "test")), SOON_S))


def all_of(*work: Awaitable[Any]) -> Awaitable[list[Any]]:
    return asyncio.gather(*work)


def test_the_result_or_the_exception_of_the_work_is_passed_on() -> None:
    def fail() -> None:
        raise LookupError("no such thing")

    async def test(threads: RouteThreads) -> None:
        assert await threads.do(sum, [1, 2], 3) == 6
        with pytest.raises(LookupError, match="no such thing"):
            await threads.do(fail)

    run(test)


def test_quick_work_is_never_done_at_the_same_time() -> None:
    is_free = Lock()
    overlaps: list[int] = []

    def work() -> None:
        if not is_free.acquire(blocking=False):
            overlaps.append(get_ident())
            return
        is_free.release()

    async def test(threads: RouteThreads) -> None:
        await all_of(*(threads.do(work) for _ in range(2_000)))
        assert overlaps == []

    run(test)


def test_work_is_done_in_the_order_of_submission() -> None:
    done: list[int] = []

    async def test(threads: RouteThreads) -> None:
        await all_of(*(threads.do(done.append, number) for number in range(100)))
        assert done == list(range(100))

    run(test)


def test_slow_work_is_overtaken() -> None:
    async def test(threads: RouteThreads) -> None:
        may_end = Event()
        slow = asyncio.ensure_future(threads.do(may_end.wait))
        assert await threads.do(get_ident)
        assert not slow.done()
        may_end.set()
        assert await slow

    run(test)


def test_as_many_are_slow_at_the_same_time_as_there_are_threads() -> None:
    async def test(threads: RouteThreads) -> None:
        together = Barrier(MOST)
        assert sorted(await all_of(*(threads.do(together.wait) for _ in range(MOST)))) == list(range(MOST))

    run(test)


def test_work_waits_for_a_thread_when_all_are_slow_and_then_is_done() -> None:
    async def test(threads: RouteThreads) -> None:
        may_end = Event()
        slow = [asyncio.ensure_future(threads.do(may_end.wait)) for _ in range(MOST)]
        waiting = asyncio.ensure_future(threads.do(get_ident))
        await asyncio.sleep(4 * MOST * PATIENCE_S)
        assert not waiting.done()
        may_end.set()
        assert await waiting
        assert await all_of(*slow) == [True] * MOST

    run(test)


def test_after_slow_work_quick_work_is_done_one_by_one_again() -> None:
    seen: set[int] = set()

    async def test(threads: RouteThreads) -> None:
        may_end = Event()
        slow = [asyncio.ensure_future(threads.do(may_end.wait)) for _ in range(MOST - 1)]
        await threads.do(get_ident)
        may_end.set()
        await all_of(*slow)
        await all_of(*(threads.do(lambda: seen.add(get_ident())) for _ in range(500)))
        assert len(seen) == 1

    run(test)


def test_a_tenant_whose_work_is_slow_occupies_its_share_of_the_threads_and_no_more() -> None:
    async def test(_: RouteThreads) -> None:
        threads, may_end = RouteThreads(MOST, "test", most_for_one=MOST - 1), Event()
        slow = [asyncio.ensure_future(threads.do(may_end.wait, on_behalf_of="greedy")) for _ in range(5 * MOST)]
        for _ in range(3):
            assert await threads.do(get_ident, on_behalf_of="modest")
        others = asyncio.ensure_future(threads.do(may_end.wait, on_behalf_of="modest"))
        await asyncio.sleep(4 * PATIENCE_S)
        assert not any(work.done() for work in (*slow, others))
        may_end.set()
        assert await all_of(*slow, others) == [True] * (5 * MOST + 1)
        assert await threads.do(get_ident, on_behalf_of="greedy")
        for _ in range(100):  # a thread answers before it notes that its work is over
            if not threads._under_way:
                break
            await asyncio.sleep(PATIENCE_S)
        assert not threads._under_way
        assert not threads._waiting

    run(test)


def test_work_of_several_tenants_is_done_in_turns() -> None:
    done: list[str] = []

    async def test(threads: RouteThreads) -> None:
        may_begin = Event()
        first = asyncio.ensure_future(threads.do(may_begin.wait))
        waiting = [threads.do(done.append, "much", on_behalf_of="much") for _ in range(100)]
        waiting.append(threads.do(done.append, "little", on_behalf_of="little"))
        under_way = [asyncio.ensure_future(work) for work in waiting]
        await asyncio.sleep(0)
        may_begin.set()
        await all_of(first, *under_way)
        assert done.index("little") <= 1

    run(test)


def test_work_that_waits_for_a_model_delays_no_other_work_and_counts_again_afterwards() -> None:
    def wait(may_end: Event) -> bool:
        with waiting_for_a_model(), waiting_for_a_model():
            return may_end.wait(SOON_S)

    async def test(_: RouteThreads) -> None:
        budget = ThreadBudget("models", 2, MOST - 1)
        threads, neighbour = (RouteThreads(MOST, "", MOST - 1, budget) for _ in range(2))
        may_end, may_go_on = Event(), Event()
        slow = [asyncio.ensure_future(threads.do(wait, may_end, on_behalf_of="a")) for _ in range(3 * MOST)]
        await asyncio.sleep(4 * MOST * PATIENCE_S)
        for each in (threads, neighbour):
            assert await each.do(get_ident, on_behalf_of="a")
        others = [asyncio.ensure_future(threads.do(may_go_on.wait, on_behalf_of="a")) for _ in range(2 * MOST)]
        await asyncio.sleep(4 * MOST * PATIENCE_S)
        assert threads._under_way["a"] == MOST - 1, "the share of the tenant, without the threads that wait"
        may_end.set()
        assert await all_of(*slow) == [True] * (3 * MOST)
        may_go_on.set()
        assert await all_of(*others) == [True] * (2 * MOST)
        for _ in range(100):  # a thread answers before it notes that its work is over
            if not threads._threads:
                break
            await asyncio.sleep(PATIENCE_S)
        assert (budget.free, budget.aside, threads._threads) == (MOST - 1, 0, 0)
        assert not threads._under_way
        assert not budget.taken

    run(test)


def test_no_more_work_than_a_limit_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstone.http.server.route_threads.MOST_ASIDE", 2)

    def wait(may_end: Event) -> bool:
        with waiting_for_a_model():
            return may_end.wait(SOON_S)

    async def test(threads: RouteThreads) -> None:
        may_end = Event()
        slow = [asyncio.ensure_future(threads.do(wait, may_end)) for _ in range(2 + MOST)]
        await asyncio.sleep(4 * MOST * PATIENCE_S)
        late = asyncio.ensure_future(threads.do(get_ident))
        await asyncio.sleep(4 * PATIENCE_S)
        assert not late.done()
        may_end.set()
        assert await all_of(*slow, late)

    run(test)


def test_a_cancelled_request_frees_its_thread() -> None:
    async def test(threads: RouteThreads) -> None:
        may_end = Event()
        abandoned = asyncio.ensure_future(threads.do(may_end.wait))
        await asyncio.sleep(0)
        abandoned.cancel()
        may_end.set()
        assert await threads.do(get_ident)

    run(test)


def test_a_loop_that_ended_with_work_under_way_leaves_the_threads_to_the_next() -> None:
    threads = RouteThreads(1, "test")
    may_end = Event()

    async def leave() -> None:
        asyncio.get_running_loop().create_task(threads.do(may_end.wait))
        asyncio.get_running_loop().create_task(threads.do(get_ident))
        await asyncio.sleep(2 * PATIENCE_S)

    async def submit() -> None:
        assert await threads.do(get_ident)

    asyncio.run(leave())
    may_end.set()
    asyncio.run(asyncio.wait_for(submit(), SOON_S))


def test_a_panic_in_the_work_is_raised_and_ends_no_thread() -> None:
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic

    def stop() -> None:
        raise StopIteration

    async def test(threads: RouteThreads) -> None:
        for fail in (panic, stop) * MOST:
            with pytest.raises(RuntimeError, match="ended by"):
                await threads.do(fail)
        assert await threads.do(get_ident)

    run(test)


def test_work_is_done_once_there_are_threads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Thread.start
    refusals = iter([True] * 2)

    def sometimes(thread: Thread) -> None:
        if next(refusals, False):
            raise RuntimeError("can't start new thread")
        start(thread)

    async def test(threads: RouteThreads) -> None:
        done: list[int] = []
        monkeypatch.setattr(Thread, "start", sometimes)
        await all_of(*(threads.do(done.append, number) for number in range(3)))
        assert sorted(done) == [0, 1, 2]
        may_end = Event()
        slow = asyncio.ensure_future(threads.do(may_end.wait))
        assert await threads.do(get_ident)
        may_end.set()
        assert await slow

    run(test)
