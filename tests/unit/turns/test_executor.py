"""The executor runs turns up to its limit, releases each permit once, and reports the turns that a drain waits for.

Covers: services/threads/executor
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import Barrier

import pytest

from tests.support.engine.harness import PATIENCE_S, Gate, eventually, fails_to_start
from turnstone.domain.errors import Overloaded, TenantOverloaded
from turnstone.services.threads.executor import TurnExecutor

SHORT_S = 0.05


def unexpected(crash: BaseException) -> None:
    pytest.fail(f"nothing crashed: {crash}")


def started(executor: TurnExecutor, run: Callable[[], None]) -> None:
    with executor.permit("acme") as permit:
        permit.start(run, unexpected)


def test_permits_are_granted_up_to_the_limit() -> None:
    executor = TurnExecutor(2)
    with executor.permit("acme"), executor.permit("acme"), pytest.raises(Overloaded), executor.permit("acme"):
        pytest.fail("there is no third slot")
    with executor.permit("acme"), executor.permit("acme"):
        pass


def test_a_turn_with_a_permit_runs_at_once_however_many_there_are() -> None:
    capacity = 50
    executor, together = TurnExecutor(capacity), Barrier(capacity)
    runs: list[int] = []

    def run() -> None:
        runs.append(together.wait(PATIENCE_S))

    for _ in range(capacity):
        started(executor, run)
    assert executor.wait(PATIENCE_S)
    assert sorted(runs) == list(range(capacity))


def test_an_unused_permit_is_released_whatever_happens() -> None:
    executor = TurnExecutor(1)
    with pytest.raises(ValueError, match="not stored"), executor.permit("acme"):
        raise ValueError("not stored")
    with executor.permit("acme") as permit:
        permit.release()
        permit.release()
    with executor.permit("acme"), pytest.raises(Overloaded), executor.permit("acme"):
        pytest.fail("a slot was released twice")


def test_a_drain_reports_how_many_run_and_whether_they_end_in_time() -> None:
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


def test_a_crash_is_reported_once_the_slot_is_free() -> None:
    executor = TurnExecutor(1)
    crash = ValueError("a bug")
    reported: list[tuple[BaseException, int]] = []

    def fail() -> None:
        raise crash

    with executor.permit("acme") as permit:
        permit.start(fail, lambda problem: reported.append((problem, executor.taken)))
    eventually(lambda: reported == [(crash, 0)])
    executor.wait(PATIENCE_S)
    started(executor, lambda: None)
    assert executor.wait(PATIENCE_S)


def test_a_tenant_takes_its_share_even_while_it_is_alone_and_leaves_the_rest_to_others() -> None:
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
        pytest.fail("its only slot is taken")
    thinking.open()
    assert executor.wait(PATIENCE_S)
    with executor.permit("a"):
        pass
    assert executor.taken == 0


def test_a_drain_waits_until_a_crash_has_been_handled() -> None:
    executor, handling, handled = TurnExecutor(1), Gate(), list[BaseException]()

    def handle(crash: BaseException) -> None:
        handling.pass_through()
        handled.append(crash)

    def fail() -> None:
        raise ValueError("a bug")

    with executor.permit("acme") as permit:
        permit.start(fail, handle)
    handling.wait()
    assert (executor.wait(SHORT_S), executor.refuse_more()) == (False, 1)
    handling.open()
    assert executor.wait(PATIENCE_S)
    assert len(handled) == 1


def test_a_crash_that_can_not_be_handled_frees_its_slot(caplog: pytest.LogCaptureFixture) -> None:
    executor = TurnExecutor(1)

    def fail(*_: object) -> None:
        raise SystemExit("a bug")

    with executor.permit("acme") as permit:
        permit.start(fail, fail)
    assert executor.wait(PATIENCE_S)
    assert (executor.taken, executor.refuse_more()) == (0, 0)
    assert "the end of a run could not be handled" in caplog.text


def test_a_run_without_a_thread_is_refused_and_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, runs = TurnExecutor(2), list[str]()
    with fails_to_start(monkeypatch, "turn"), executor.permit("acme") as permit, pytest.raises(Overloaded):
        permit.start(lambda: runs.append("refused"), unexpected)
    assert (executor.taken, executor.wait(SHORT_S)) == (0, True)
    started(executor, lambda: runs.append("next"))
    assert executor.wait(PATIENCE_S)
    assert runs == ["next"]
