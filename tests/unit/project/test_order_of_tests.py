"""Slow tests begin first where several processes share them, and none is lost by that.

Covers: tests/conftest
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems as put_in_order


def ordered(count: int, slow: set[int], processes: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the tests in the order they are given out in."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(processes))
    items: list[Any] = [SimpleNamespace(number=n, get_closest_marker=lambda _, n=n: n in slow) for n in range(count)]
    put_in_order(items)
    return [item.number for item in items]


def test_every_process_begins_with_its_share_of_the_slow_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ordered(10, {1, 2, 8}, 2, monkeypatch) == [1, 8, 0, 3, 4, 2, 5, 6, 7, 9]


def test_tests_are_put_in_order_after_others_are_left_out() -> None:
    """Parts that are equal only with the nightly tests would end with the slow tests of the next part."""
    assert put_in_order.pytest_impl["trylast"]  # type: ignore[attr-defined]


def test_one_process_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ordered(4, {2, 3}, 1, monkeypatch) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
@pytest.mark.parametrize("slow", [set(), {0}, {0, 1, 2}, set(range(50))], ids=len)
def test_no_test_is_lost_or_run_twice(count: int, slow: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(ordered(count, slow, 4, monkeypatch)) == list(range(count))
