"""The queue for slots: its fair order, its limits, and that no slot is lost whichever waiter leaves when.

Covers: services/threads/executor, services/threads/slots
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine.harness import PATIENCE_S, eventually
from turnstone.domain.errors import Overloaded, Stopping, TenantOverloaded
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.threads.slots import QUEUE_BYTES, TENANT_QUEUE_BYTES, QueueLimits, Slots, Waiter

LIMITS = QueueLimits(wait_s=3.2, requests=100, requests_of_tenant=100)
TENANTS = "abc"


class Line:
    """Slots, and the waiters in the order in which they were settled."""

    def __init__(self, capacity: int, share: int | None = None, limits: QueueLimits = LIMITS) -> None:
        self.slots = Slots(capacity, capacity if share is None else share, limits)
        self.settled: list[str] = []
        self.waiters: dict[str, Waiter] = {}

    def wait(self, name: str, *, first: bool = False, size_bytes: int | None = 1) -> Waiter:
        """Queue a request of the tenant that the first letter of the name identifies."""
        waiter = Waiter(name[0], lambda _: self.settled.append(name), size_bytes, comes_first=first)
        self.waiters[name] = waiter
        self.slots.join(waiter)
        return waiter

    def served(self, *tenants: str) -> list[str]:
        """Return the waiters that are served while these tenants release their slots, one after the other."""
        before = len(self.settled)
        for tenant in tenants:
            self.slots.release(tenant)
        return self.settled[before:]


def full(capacity: int = 1, tenant: str = "x", share: int | None = None, limits: QueueLimits = LIMITS) -> Line:
    line = Line(capacity, share, limits)
    for _ in range(capacity if share is None else share):
        line.slots.take(tenant)
    return line


def test_requests_of_a_tenant_are_served_in_the_order_of_arrival() -> None:
    line = full()
    for name in ("a1", "a2", "a3"):
        line.wait(name)
    assert line.served("x", "a", "a") == ["a1", "a2", "a3"]
    assert line.slots.taken == 1


def test_tenants_are_served_in_turns_however_many_requests_one_has() -> None:
    line = full()
    for name in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
        line.wait(name)
    assert line.served(*"xabcaba") == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_a_begun_turn_precedes_new_ones_of_the_same_tenant_only() -> None:
    line = full()
    for name, first in (("a1", False), ("b1", False), ("a2", True), ("a3", True)):
        line.wait(name, first=first)
    assert line.served(*"xaba") == ["a2", "b1", "a3", "a1"]


def test_a_free_slot_is_granted_at_once() -> None:
    line = Line(1)
    assert line.wait("a1").has_slot
    assert line.settled == ["a1"]
    assert not line.wait("a2").has_slot


def test_a_tenant_that_has_its_share_waits_and_delays_no_other() -> None:
    line = full(4, "a", share=3)
    line.wait("a1")
    assert line.slots.taken == 3
    assert line.wait("b1").has_slot
    line.wait("b2")
    assert line.served("a") == ["a1"]
    assert line.served("b") == ["b2"]
    line.wait("b3")
    line.wait("a2")
    assert line.served("b") == ["b3"]
    assert line.served("b") == []
    assert line.served("a") == ["a2"]


def test_a_waiter_that_left_is_not_served() -> None:
    line = full()
    for name in ("a1", "a2", "b1"):
        line.wait(name)
    line.slots.leave(line.waiters["a1"])
    line.slots.leave(line.waiters["b1"])
    assert line.slots.queued == 1
    assert line.served("x") == ["a2"]
    assert line.slots.queued == 0


def test_a_waiter_that_leaves_with_a_slot_passes_it_to_the_next() -> None:
    line = full()
    line.wait("a1")
    line.wait("b1")
    assert line.served("x") == ["a1"]
    line.slots.leave(line.waiters["a1"])
    assert line.settled == ["a1", "b1"]
    line.slots.leave(line.waiters["b1"])
    assert line.slots.taken == 0


def test_one_tenant_fills_its_part_of_the_queue_and_no_more() -> None:
    line = full(limits=QueueLimits(4.2, requests=5, requests_of_tenant=3))
    for name in ("a1", "a2", "a3"):
        line.wait(name)
    with pytest.raises(Overloaded, match="and 3 requests of this tenant wait for a place") as refused:
        line.wait("a4")
    assert refused.value.retry_after_s == 5
    line.wait("b1")
    line.wait("b2")
    with pytest.raises(Overloaded, match="and 5 requests wait for a place"):
        line.wait("b3")
    line.slots.leave(line.waiters["a1"])
    line.wait("c1")


@pytest.mark.parametrize("waiting", [1, 2])
def test_a_full_queue_names_its_limit_and_a_tenant_only_where_there_are_several(waiting: int) -> None:
    how_many = "1 request" if waiting == 1 else "2 requests"
    wait = "waits" if waiting == 1 else "wait"
    for limits, refusal in [
        (
            QueueLimits(4.2, requests=waiting, requests_of_tenant=waiting),
            f"and {how_many} {wait} for a place (the limit TURNSTONE_MAX_WAITING_REQUESTS); try",
        ),
        (
            QueueLimits(4.2, requests=9, requests_of_tenant=waiting),
            f"and {how_many} of this tenant {wait} for a place (the limit TURNSTONE_MAX_TENANT_WAITING_REQUESTS); try",
        ),
    ]:
        line = full(limits=limits)
        for number in range(waiting):
            line.wait(f"a{number}")
        with pytest.raises(Overloaded, match=re.escape(refusal)):
            line.wait("a9")


def test_bodies_that_fill_the_queue_are_refused_by_their_bytes() -> None:
    line = full(limits=QueueLimits(4.2, requests=9, requests_of_tenant=9))
    line.wait("a1", size_bytes=TENANT_QUEUE_BYTES)
    with pytest.raises(Overloaded, match="and 1 request waits for a place, with as many bytes as may wait; try"):
        line.wait("a2", size_bytes=1)


def test_work_of_the_server_itself_is_queued_whatever_the_limits() -> None:
    line = full(limits=QueueLimits(1, requests=1, requests_of_tenant=1))
    line.wait("a1")
    line.wait("a2", size_bytes=None, first=True)
    with pytest.raises(Overloaded):
        line.wait("b1")
    assert line.served("x") == ["a2"]
    assert line.slots.queued == 1


def test_bodies_that_wait_have_limits_but_one_may_be_of_any_size() -> None:
    line = full()
    line.wait("a1", size_bytes=QUEUE_BYTES * 2)
    with pytest.raises(Overloaded):
        line.wait("a2", size_bytes=1)
    with pytest.raises(Overloaded):
        line.wait("b1", size_bytes=1)
    line.slots.leave(line.waiters["a1"])
    line.wait("a3", size_bytes=TENANT_QUEUE_BYTES)
    with pytest.raises(Overloaded):
        line.wait("a4", size_bytes=1)
    for name in ("b2", "c2", "d2"):
        line.wait(name, size_bytes=TENANT_QUEUE_BYTES)
    with pytest.raises(Overloaded, match="4 requests wait"):
        line.wait("e2", size_bytes=1)


def test_without_a_queue_no_request_waits() -> None:
    line = full(limits=QueueLimits(0, requests=9, requests_of_tenant=9))
    with pytest.raises(
        Overloaded, match=r"all this server takes \(the limit TURNSTONE_MAX_RUNNING_TURNS\); try"
    ) as refused:
        line.wait("a1")
    assert refused.value.retry_after_s == 1


def test_a_stop_refuses_all_waiters_and_later_requests() -> None:
    line = full()
    line.wait("a1")
    line.wait("b1")
    line.slots.stop()
    assert line.settled == ["a1", "b1"]
    for name in ("a1", "b1"):
        line.slots.leave(line.waiters[name])
        assert isinstance(line.slots.refusal(line.waiters[name]), Stopping)
    assert line.served("x") == []
    assert line.slots.taken == 0
    with pytest.raises(Stopping):
        line.wait("c1")
    with pytest.raises(Stopping):
        line.slots.take("c")


def test_the_error_of_a_wait_names_its_duration_and_the_exceeded_limit() -> None:
    line = full()
    waiter = line.wait("a1")
    line.slots.leave(waiter)
    refusal = line.slots.refusal(waiter)
    assert str(refusal) == (
        "1 turn is running, which is all this server takes (the limit TURNSTONE_MAX_RUNNING_TURNS), "
        "and no place became free within 3.2 s (TURNSTONE_PLACE_WAIT_SECONDS); try again shortly"
    )
    assert refusal.retry_after_s == 4
    greedy = full(4, "a", share=2)
    waiter = greedy.wait("a1")
    greedy.slots.leave(waiter)
    assert isinstance(greedy.slots.refusal(waiter), TenantOverloaded)
    assert "the share of this tenant" in str(greedy.slots.refusal(waiter))


Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("take", "wait", "wait first", "leave", "end")), st.sampled_from(TENANTS), st.integers(0, 9)
    )
)


@given(st.integers(1, 4), st.integers(1, 4), STEPS)
def test_slots_are_neither_lost_nor_made_and_no_free_one_is_waited_for(
    capacity: int, share: int, steps: list[Step]
) -> None:
    share = min(share, capacity)
    line = Line(capacity, share, QueueLimits(1, requests=5, requests_of_tenant=3))
    held: list[str] = []  # tenants that took a slot without waiting
    for number, (act, tenant, choice) in enumerate(steps):
        if act == "take":
            with suppress(Overloaded):
                line.slots.take(tenant)
                held.append(tenant)
        elif act.startswith("wait"):
            with suppress(Overloaded):
                line.wait(f"{tenant}{number}", first=act != "wait")
                continue
            line.waiters.pop(f"{tenant}{number}")
        elif act == "leave" and line.waiters:
            line.slots.leave(line.waiters.pop(sorted(line.waiters)[choice % len(line.waiters)]))
        elif act == "end" and held:
            line.slots.release(held.pop(choice % len(held)))
        _check(line, held, capacity, share)
    for waiter in list(line.waiters.values()):
        line.slots.leave(waiter)
    for tenant in held:
        line.slots.release(tenant)
    assert (line.slots.taken, line.slots.queued, line.slots._queued_bytes) == (0, 0, 0)
    assert not line.slots._taken_by
    assert not line.slots._queues


def _check(line: Line, held: list[str], capacity: int, share: int) -> None:
    taken = Counter(held) + Counter(waiter.tenant for waiter in line.waiters.values() if waiter.has_slot)
    waiting = [waiter for waiter in line.waiters.values() if not waiter.has_slot]
    assert line.slots.taken == taken.total() <= capacity
    assert line.slots.queued == len(waiting)
    assert all(number <= share for number in taken.values())
    if taken.total() < capacity:
        assert all(taken[waiter.tenant] >= share for waiter in waiting)


@pytest.mark.parametrize("seed", range(3))
def test_slots_are_conserved_while_threads_come_wait_and_leave_at_random(seed: int) -> None:
    capacity = 4
    executor = TurnExecutor(capacity, 3, QueueLimits(1, requests=40, requests_of_tenant=20))
    running, most = Counter[str](), Counter[str]()
    counting = threading.Lock()
    ran: list[str] = []

    def run(tenant: str) -> None:
        with counting:
            running[tenant] += 1
            most[tenant] = max(most[tenant], running[tenant])
            most["all"] = max(most["all"], running.total())
            ran.append(tenant)
        with counting:
            running[tenant] -= 1

    def start(tenant: str) -> None:
        with executor.permit(tenant) as permit:
            permit.start(lambda: run(tenant), lambda crash: pytest.fail(str(crash)))

    def enqueue(number: int) -> None:
        random = Random(f"{seed}-{number}")
        for _ in range(200):
            tenant, settled = random.choice(TENANTS), threading.Event()
            try:
                waiter = executor.queue(
                    tenant, lambda _, is_set=settled.set: is_set(), size_bytes=1, comes_first=random.random() < 0.3
                )
            except Overloaded:
                continue
            settled.wait(random.choice((0, 0.0001, PATIENCE_S)))
            if waiter.has_slot and random.random() < 0.8:
                executor.within(waiter, lambda tenant=tenant: start(tenant) if random.random() < 0.8 else None)
            else:
                executor.leave(waiter)

    threads = [threading.Thread(target=enqueue, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a waiter never received a slot"
    eventually(lambda: (executor.taken, executor.queued) == (0, 0))
    assert ran
    assert most["all"] <= capacity
    assert all(most[tenant] <= 3 for tenant in TENANTS)
