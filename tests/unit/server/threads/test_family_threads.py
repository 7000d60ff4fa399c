"""The routes of a family share threads, of which each route has one to itself.

Covers: http/server/route_threads, http/server/app
"""

import asyncio
import threading
import time
from pathlib import Path

import functions
from functions.local.routes import FAMILIES, ROUTES
from turnstone.edge.declared_routes import DECLARES
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route
from turnstone.http.server.app import COMMON_THREADS, thread_budgets
from turnstone.http.server.hosting import OneMachine
from turnstone.http.server.route_threads import PATIENCE_S, RouteThreads, ThreadBudget

MOST, SOON_S = 8, 10.0


def budgets_of(routes: tuple[Route, ...]) -> int:
    budgets = thread_budgets(routes, OneMachine())
    for budget in budgets.values():
        budget.pool.shutdown()
    return sum(budget.most_threads for budget in budgets.values())


def test_the_threads_of_the_whole_process_are_bounded() -> None:
    """Each takes a megabyte of address space, and little memory before its first work."""
    assert budgets_of(ROUTES) <= 340

    def scripted(number: int) -> Route:
        def endpoint(_: Request) -> Reply:
            return Reply(b"")

        endpoint.__module__ = f"functions.family_{number % 23}.route_{number}"
        return Route("GET", f"/v1/{number}", endpoint, None)

    assert budgets_of(tuple(map(scripted, range(170)))) == 170 + 23 * COMMON_THREADS <= 340


def test_stuck_routes_of_a_family_leave_each_other_route_its_thread() -> None:
    """Eight stuck calls of each of three routes take all common threads; a fourth route answers at once."""

    async def scene() -> tuple[int, float]:
        may_end = threading.Event()
        budget = ThreadBudget("family", 4, COMMON_THREADS)
        routes = [RouteThreads(MOST, "", budget=budget) for _ in range(4)]
        stuck = [asyncio.create_task(route.do(may_end.wait)) for route in routes[:3] for _ in range(MOST)]
        try:
            await asyncio.sleep(PATIENCE_S * 12)
            taken = sum(thread.name.startswith("family_") for thread in threading.enumerate())
            began = time.monotonic()
            await asyncio.wait_for(routes[3].do(int), SOON_S)
            took = time.monotonic() - began
        finally:
            may_end.set()  # else the process never ends
        await asyncio.wait_for(asyncio.gather(*stuck), SOON_S)
        async with asyncio.timeout(SOON_S):
            while budget.taken:  # a thread counts the end of its work after the result is there
                await asyncio.sleep(0)
        assert budget.free == COMMON_THREADS - sum(max(0, route._threads - 1) for route in routes)
        return taken, took

    taken, took = asyncio.run(scene())
    print(f"{taken} threads were stuck; the fast route took {took * 1e3:.2f} ms")
    assert taken == 3 + COMMON_THREADS
    assert took < SOON_S / 2


def test_a_tenant_leaves_some_common_threads_to_others() -> None:
    async def scene() -> None:
        may_end = threading.Event()
        budget = ThreadBudget("tenants", 3, COMMON_THREADS, 2)
        routes = [RouteThreads(MOST, "", 6, budget) for _ in range(3)]
        stuck = [asyncio.create_task(each.do(may_end.wait, on_behalf_of="a")) for each in routes for _ in range(MOST)]
        try:
            await asyncio.sleep(PATIENCE_S * 12)
            for route in routes:
                await asyncio.wait_for(route.do(int, on_behalf_of="b"), SOON_S)
        finally:
            may_end.set()
        await asyncio.wait_for(asyncio.gather(*stuck), SOON_S)

    asyncio.run(scene())


def test_every_module_with_a_route_is_in_the_list_of_its_family_and_the_family_in_that_of_the_server() -> None:
    folder = Path(functions.__path__[0])
    declaring = {
        ".".join(("functions", *p.relative_to(folder).with_suffix("").parts))
        for p in folder.glob("*/**/*.py")
        if DECLARES.search(p.read_text())
    }
    listed = {route.endpoint.__module__ for family in FAMILIES for route in family.ROUTES}
    assert declaring == listed
