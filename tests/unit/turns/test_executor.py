"""As many turns run at once as may, each place is given back once, and who drains learns what still runs.

Covers: services/threads/executor
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Barrier

import pytest

from tests.support.engine.harness import PATIENCE_S, Gate, eventually
from turnstone.domain.errors import Overloaded, TenantOverloaded
from turnstone.services.threads.executor import TurnExecutor

SHORT_S = 0.05


def unexpected(crash: BaseException) -> None:
    pytest.fail(f"nothing crashed: {crash}")


def started(executor: TurnExecutor, run: Callable[[], None]) -> None:
    with executor.permit("acme") as permit:
        permit.start(run, unexpected)


def test_as_many_places_are_taken_as_there_are_and_no_more() -> None:
    executor = TurnExecutor(2)
    with executor.permit("acme"), executor.permit("acme"), pytest.raises(Overloaded), executor.permit("acme"):
        pytest.fail("there is no third place")
    with executor.permit("acme"), executor.permit("acme"):
        pass


def test_whoever_has_a_place_runs_at_once_however_many_there_are() -> None:
    places = 50
    executor, together = TurnExecutor(places), Barrier(places)
    runs: list[int] = []

    def run() -> None:
        runs.append(together.wait(PATIENCE_S))

    for _ in range(places):
        started(executor, run)
    assert executor.wait(PATIENCE_S)
    assert sorted(runs) == list(range(places))


def test_a_place_that_is_not_used_is_given_back_whatever_happens() -> None:
    executor = TurnExecutor(1)
    with pytest.raises(ValueError, match="not stored"), executor.permit("acme"):
        raise ValueError("not stored")
    with executor.permit("acme") as permit:
        permit.release()
        permit.release()
    with executor.permit("acme"), pytest.raises(Overloaded), executor.permit("acme"):
        pytest.fail("a place was given back twice")


def test_who_drains_learns_how_many_run_and_whether_they_end_in_time() -> None:
    executor, thinking = TurnExecutor(3), Gate()
    started(executor, thinking.pass_through)
    started(executor, thinking.pass_through)
    assert executor.refuse_more() == 2
    with pytest.raises(Overloaded), executor.permit("acme"):
        pytest.fail("it takes no more")
    assert executor.wait(SHORT_S) is False
    thinking.open()
    assert executor.wait(PATIENCE_S) is True
    eventually(lambda: executor.refuse_more() == 0)


def test_a_crash_is_heard_once_the_place_is_free() -> None:
    executor = TurnExecutor(1)
    crash = ValueError("a bug")
    heard: list[tuple[BaseException, int]] = []

    def fail() -> None:
        raise crash

    with executor.permit("acme") as permit:
        permit.start(fail, lambda problem: heard.append((problem, executor.taken)))
    eventually(lambda: heard == [(crash, 0)])
    executor.wait(PATIENCE_S)
    started(executor, lambda: None)
    assert executor.wait(PATIENCE_S)


def test_a_tenant_takes_its_share_even_while_nobody_else_asks_and_leaves_the_rest_to_others() -> None:
    executor = TurnExecutor(4, share=3)
    with ExitStack() as taken:
        for _ in range(3):
            taken.enter_context(executor.permit("greedy"))
        with pytest.raises(TenantOverloaded, match=r"3 turns .* the share of this tenant of the 4 places") as refused:
            taken.enter_context(executor.permit("greedy"))
        assert refused.value.share == 3
        taken.enter_context(executor.permit("modest"))
        with pytest.raises(Overloaded, match="all this server takes"):
            taken.enter_context(executor.permit("third"))
    with executor.permit("greedy"):
        pass


def test_a_share_is_free_again_when_its_turns_have_ended() -> None:
    executor, thinking = TurnExecutor(2, share=1), Gate()
    with executor.permit("a") as permit:
        permit.start(thinking.pass_through, unexpected)
    with pytest.raises(TenantOverloaded), executor.permit("a"):
        pytest.fail("its only place is taken")
    thinking.open()
    assert executor.wait(PATIENCE_S)
    with executor.permit("a"):
        pass
    assert executor.taken == 0
