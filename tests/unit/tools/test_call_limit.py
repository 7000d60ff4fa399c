"""The limit of parallel calls: the slots, their fair order, and the end of a wait.

Covers: adapters/tools/code/call_limit
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.server.servers import wait_until
from turnstone.adapters.tools.code.call_limit import CallLimit
from turnstone.domain.errors import ToolFailed
from turnstone.domain.values.cancellation import StopSignal

LONG_S = 20.0


class Calls:
    """Calls in threads of their own, which hold their slots until they are released.

    Attributes:
        running: the names of those that have a slot, in the order they got it.
    """

    def __init__(self, limit: CallLimit) -> None:
        self.limit = limit
        self.running: list[str] = []
        self._ends: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def begin(self, name: str) -> None:
        """Begin a call of the tenant whose name the call's begins with, and return once it runs or waits."""
        waiting = self.waiting()
        thread = threading.Thread(target=self._call, args=(name, self._ends.setdefault(name, threading.Event())))
        thread.start()
        self._threads.append(thread)
        wait_until(lambda: name in self.running or self.waiting() > waiting, LONG_S, "the call did not begin")

    def end(self, name: str, then: int) -> None:
        """End a call, and return once so many have run in all."""
        self._ends[name].set()
        wait_until(lambda: len(self.running) == then, LONG_S, f"not {then} of {self.running}")

    def waiting(self) -> int:
        return sum(map(len, self.limit._waiting.values()))

    def close(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads:
            thread.join()

    def _call(self, name: str, end: threading.Event) -> None:
        with self.limit.slot(name[0], LONG_S, None):
            self.running.append(name)
            end.wait(LONG_S)


@contextmanager
def calls_of(most: int) -> Iterator[Calls]:
    calls = Calls(CallLimit(most))
    try:
        yield calls
    finally:
        calls.close()


def test_no_more_run_at_a_time_than_there_are_slots() -> None:
    with calls_of(4) as calls:
        for name in ("a1", "b1", "a2", "b2", "c1"):
            calls.begin(name)
        assert calls.running == ["a1", "b1", "a2", "b2"]
        calls.end("a1", then=5)
        assert calls.running[4:] == ["c1"]


@pytest.mark.parametrize(("most", "of_one"), [(1, 1), (2, 1), (3, 2), (4, 3), (16, 12)])
def test_one_tenant_leaves_a_slot_to_others(most: int, of_one: int) -> None:
    with calls_of(most) as calls:
        for number in range(most + 1):
            calls.begin(f"a{number}")
        assert len(calls.running) == of_one
        calls.begin("b0")
        assert ("b0" in calls.running) == (most > 1)


def test_a_free_slot_goes_to_the_tenant_that_holds_the_fewest_and_then_in_turns() -> None:
    with calls_of(4) as calls:
        for name in ("a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1", "c2"):
            calls.begin(name)
        assert calls.running == ["a1", "a2", "a3", "b1"]
        calls.end("a1", then=5)
        calls.end("a2", then=6)
        calls.end("a3", then=7)
        assert calls.running[4:] == ["c1", "a4", "b2"]


def test_a_wait_without_success_is_an_error_and_leaves_nothing_behind() -> None:
    limit = CallLimit(1)
    with limit.slot("a", LONG_S, None) as waited_s:
        assert waited_s == 0
        for tenant in ("a", "b"):
            with pytest.raises(ToolFailed, match=r"it waited 0\.01 s for a place, and one call at a time may run here"):
                ExitStack().enter_context(limit.slot(tenant, 0.01, None))
    with limit.slot("b", 0, None) as waited_s:
        assert waited_s == 0
    assert not limit._waiting
    assert not limit._held


def test_a_cancelled_call_waits_no_longer() -> None:
    limit, stop = CallLimit(1), StopSignal()
    with limit.slot("a", LONG_S, None):
        canceller = threading.Timer(0.05, stop.set)
        canceller.start()
        with pytest.raises(ToolFailed, match="cancelled while it waited"):
            ExitStack().enter_context(limit.slot("a", LONG_S, stop))
        canceller.join()


def test_a_slot_is_free_again_after_a_failure() -> None:
    limit = CallLimit(1)
    with pytest.raises(ZeroDivisionError), limit.slot("a", LONG_S, None):
        raise ZeroDivisionError
    with limit.slot("a", 0, None) as waited_s:
        assert waited_s == 0
