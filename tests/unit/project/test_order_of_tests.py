"""Slow tests begin first where several processes share them, tests that wait beside others, and none is lost by that.

Covers: tests/conftest
"""

from __future__ import annotations

from collections.abc import Set
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import WAITING
from tests.conftest import pytest_collection_modifyitems as put_in_order

ROOT = WAITING.parent


def ordered(
    count: int, slow: set[int], processes: int, monkeypatch: pytest.MonkeyPatch, waiting: Set[int] = frozenset()
) -> list[int]:
    """Return the numbers of the tests in the order they are given out in."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    items: list[Any] = [
        SimpleNamespace(
            number=n,
            path=(WAITING if n in waiting else ROOT / "unit") / "turns" / "test_it.py",
            get_closest_marker=lambda _, n=n: n in slow,
        )
        for n in range(count)
    ]
    put_in_order(items)
    return [item.number for item in items]


def test_some_processes_begin_with_tests_that_wait_and_others_with_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    order = ordered(16, {1, 2, 7}, 4, monkeypatch, waiting={6, 7, 8})
    assert [order[begin : begin + 4] for begin in range(0, 16, 4)] == [
        [7, 8, 0, 3], [6, 4, 5, 9], [1, 10, 11, 12], [2, 13, 14, 15]
    ]  # fmt: skip


def test_tests_are_put_in_order_after_others_are_left_out() -> None:
    """Parts that are equal only with the nightly tests would end with the slow tests of the next part."""
    assert put_in_order.pytest_impl["trylast"]  # type: ignore[attr-defined]


def test_one_process_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ordered(4, {2, 3}, 1, monkeypatch) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
@pytest.mark.parametrize("slow", [set(), {0}, {0, 1, 2}, set(range(50))], ids=len)
def test_no_test_is_lost_or_run_twice(count: int, slow: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(ordered(count, slow, 4, monkeypatch, waiting=set(range(0, 50, 3)))) == list(range(count))
