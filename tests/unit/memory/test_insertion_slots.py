"""Slots for insertions of large texts: a few at a time, the share of a tenant, and refusals when too many wait.

Covers: services/threads/insertion_slots
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from turnstone.domain.errors import InsertionsBusy
from turnstone.services.threads.insertion_slots import LARGE, InsertionSlots
from turnstone.services.threads.slots import QueueLimits

SOON_S = 5.0


def slots(wait_s: float = SOON_S, requests: int = 2, of_tenant: int = 1) -> InsertionSlots:
    return InsertionSlots(has_tenants=True, slots=2, limits=QueueLimits(wait_s, requests, of_tenant))


@contextmanager
def waiting(of: InsertionSlots, tenant: str) -> Iterator[threading.Event]:
    """Wait for a slot in a thread; the event is set once it is there."""
    entered, left = threading.Event(), threading.Event()

    def work() -> None:
        with of.taken(tenant, LARGE):
            entered.set()
            left.wait(SOON_S)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield entered
    finally:
        left.set()
        thread.join(SOON_S)


def test_a_small_text_needs_no_slot() -> None:
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(slots(0.0).taken("ann", LARGE - 1))


def test_a_tenant_leaves_a_slot_to_others() -> None:
    of = slots(0.0)
    with of.taken("ann", LARGE):
        with pytest.raises(InsertionsBusy), of.taken("ann", LARGE):
            raise AssertionError("there is no second slot for this tenant")
        with of.taken("bob", LARGE):
            pass
    with of.taken("ann", LARGE):
        pass


def test_a_request_waits_for_its_slot_and_others_are_refused_at_once() -> None:
    of = slots()
    with ExitStack() as stack:
        held = stack.enter_context(ExitStack())
        held.enter_context(of.taken("ann", LARGE))
        entered = stack.enter_context(waiting(of, "ann"))
        deadline = time.monotonic() + SOON_S
        while not of.waiting and time.monotonic() < deadline:
            time.sleep(0.001)
        with pytest.raises(InsertionsBusy) as busy, of.taken("ann", LARGE):
            raise AssertionError("no second one waits")
        assert busy.value.retry_after_s == SOON_S
        assert not entered.is_set()
        held.close()
        assert entered.wait(SOON_S)


def test_a_request_that_has_waited_too_long_is_refused_and_leaves_its_slot() -> None:
    of = slots(0.05)
    with of.taken("ann", LARGE), pytest.raises(InsertionsBusy), of.taken("ann", LARGE):
        raise AssertionError("there is no second slot for this tenant")
    with of.taken("ann", LARGE):
        pass
