"""Slots for turns and direct model requests: their number, the share of a tenant, and the queue."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from math import ceil
from threading import Lock
from typing import NamedTuple

from turnstone.domain.errors import Overloaded, Stopping, TenantOverloaded

QUEUE_BYTES = 64_000_000  # of the bodies of all requests in the queue
TENANT_QUEUE_BYTES = QUEUE_BYTES // 4


class QueueLimits(NamedTuple):
    """The limits of the queue for slots.

    Attributes:
        wait_s: longest wait of a request; 0 for no queue.
        requests: requests in the queue at most.
        requests_of_tenant: requests of one tenant in it at most.
    """

    wait_s: float
    requests: int
    requests_of_tenant: int


NO_QUEUE = QueueLimits(0.0, 0, 0)


class Waiter:
    """An entry of the queue. `settle` is called once, from any thread: it has a slot, or the server stops.

    Attributes:
        size_bytes: of the request's body; None for the server itself, which is exempt from the limits.
        has_slot: whether it received a slot, which it holds until it leaves.
    """

    __slots__ = ("comes_first", "has_slot", "is_stopped", "settle", "size_bytes", "tenant")

    def __init__(
        self, tenant: str, settle: Callable[[Waiter], None], size_bytes: int | None, *, comes_first: bool
    ) -> None:
        self.tenant = tenant
        self.settle = settle
        self.size_bytes = size_bytes
        self.comes_first = comes_first
        self.has_slot = False
        self.is_stopped = False


class Slots:
    """Slots, each held by one tenant while it is taken.

    A tenant holds its share at most, even while no other tenant needs a slot: one that a slow model holds can't be
    taken from it for a later tenant. A released slot goes to the tenants of the queue in turns; of one tenant, turns
    that were begun precede new ones, each in the order of arrival.
    """

    def __init__(self, capacity: int, share: int, limits: QueueLimits) -> None:
        self._capacity = capacity
        self._share = share
        self.limits = limits
        self._has_tenants = share < capacity or limits.requests_of_tenant < limits.requests
        self._lock = Lock()
        self._taken_by: Counter[str] = Counter()
        self._taken = 0
        self._queues: OrderedDict[str, _Queue] = OrderedDict()  # by tenant, the next one to be served first
        self._queued = 0
        self._queued_bytes = 0
        self._is_stopping = False

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def queued(self) -> int:
        """Number of requests in the queue."""
        return self._queued

    def take(self, tenant: str) -> None:
        """Take a slot for the tenant. Raises Overloaded if none is free for it."""
        with self._lock:
            self._take(tenant)

    def release(self, tenant: str) -> None:
        """Release a slot, to the queue first of all."""
        with self._lock:
            self._taken -= 1
            self._taken_by[tenant] -= 1
            if not self._taken_by[tenant]:
                del self._taken_by[tenant]
            served = list(self._served())
        for waiter in served:
            waiter.settle(waiter)

    def join(self, waiter: Waiter) -> None:
        """Give the waiter a slot, or queue it. Raises Overloaded if it may not be queued."""
        with self._lock:
            try:
                self._take(waiter.tenant)
            except Overloaded as full:
                self._refuse_beyond_limits(waiter, full)
                self._enqueue(waiter)
                return
            waiter.has_slot = True
        waiter.settle(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Remove the waiter from the queue, or release its slot."""
        with self._lock:
            is_queued = not waiter.has_slot
            if is_queued:
                self._dequeue(waiter)
        if not is_queued:
            self.release(waiter.tenant)

    def stop(self) -> None:
        """Grant no more slots and empty the queue; slots that are taken stay so until their release."""
        with self._lock:
            self._is_stopping = True
            stopped = [waiter for queue in self._queues.values() for waiter in queue]
            for waiter in stopped:
                waiter.is_stopped = True
                self._dequeue(waiter)
        for waiter in stopped:
            waiter.settle(waiter)

    def refusal(self, waiter: Waiter) -> Overloaded:
        """Return why the waiter, which has left the queue, got no slot."""
        if waiter.is_stopped:
            return Stopping(self._capacity)
        full: Overloaded = Overloaded(self._capacity)
        if self._taken_by[waiter.tenant] >= self._share < self._capacity:
            full = TenantOverloaded(self._share, self._capacity)
        return self._with_reason(
            full, f"no place became free within {self.limits.wait_s:g} s (TURNSTONE_PLACE_WAIT_SECONDS)"
        )

    def _take(self, tenant: str) -> None:
        if self._is_stopping:
            raise Stopping(self._capacity)
        if self._taken >= self._capacity:
            raise Overloaded(self._capacity)
        if self._taken_by[tenant] >= self._share:
            raise TenantOverloaded(self._share, self._capacity)
        self._taken += 1
        self._taken_by[tenant] += 1

    def _refuse_beyond_limits(self, waiter: Waiter, full: Overloaded) -> None:
        """Raise `full` if the waiter may not wait for a slot."""
        if isinstance(full, Stopping) or not self.limits.wait_s:
            raise full
        if waiter.size_bytes is None:
            return
        own = self._queues.get(waiter.tenant)
        own_requests, own_bytes = (own.requests, own.size_bytes) if own else (0, 0)
        own_waiting = _waiting(own_requests, " of this tenant" if self._has_tenants else "")
        if self._has_tenants and own_requests >= self.limits.requests_of_tenant:
            raise self._with_reason(full, f"{own_waiting} (the limit TURNSTONE_MAX_TENANT_WAITING_REQUESTS)")
        if self._queued >= self.limits.requests:
            raise self._with_reason(full, f"{_waiting(self._queued)} (the limit TURNSTONE_MAX_WAITING_REQUESTS)")
        if _is_over(own_bytes, waiter, TENANT_QUEUE_BYTES):
            raise self._with_reason(full, f"{own_waiting}, with as many bytes as may wait")
        if _is_over(self._queued_bytes, waiter, QUEUE_BYTES):
            raise self._with_reason(full, f"{_waiting(self._queued)}, with as many bytes as may wait")

    def _with_reason(self, full: Overloaded, why: str) -> Overloaded:
        """Return the error with why the request stopped waiting, and with the time by which the queue has moved on."""
        full.why_not_later = why
        full.retry_after_s = max(1, ceil(self.limits.wait_s))
        return full

    def _served(self) -> Iterator[Waiter]:
        """Yield the waiters that receive a free slot."""
        while self._taken < self._capacity and not self._is_stopping:
            tenant = next((each for each in self._queues if self._taken_by[each] < self._share), None)
            if tenant is None:
                return
            waiter = self._queues[tenant].first()
            self._queues.move_to_end(tenant)
            self._dequeue(waiter)
            self._take(tenant)
            waiter.has_slot = True
            yield waiter

    def _enqueue(self, waiter: Waiter) -> None:
        queue = self._queues.get(waiter.tenant)
        if queue is None:
            queue = self._queues[waiter.tenant] = _Queue()
        queue.add(waiter)
        if waiter.size_bytes is not None:
            self._queued += 1
            self._queued_bytes += waiter.size_bytes

    def _dequeue(self, waiter: Waiter) -> None:
        """Remove the waiter from the queue, if it is still there."""
        queue = self._queues.get(waiter.tenant)
        if queue is None or not queue.remove(waiter):
            return
        if not queue:
            del self._queues[waiter.tenant]
        if waiter.size_bytes is not None:
            self._queued -= 1
            self._queued_bytes -= waiter.size_bytes


class _Queue:
    """The waiters of one tenant."""

    def __init__(self) -> None:
        self._begun: OrderedDict[Waiter, None] = OrderedDict()
        self._new: OrderedDict[Waiter, None] = OrderedDict()
        self.requests = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._begun) + len(self._new)

    def __iter__(self) -> Iterator[Waiter]:
        yield from self._begun
        yield from self._new

    def first(self) -> Waiter:
        return next(iter(self))

    def add(self, waiter: Waiter) -> None:
        self._part_of(waiter)[waiter] = None
        if waiter.size_bytes is not None:
            self.requests += 1
            self.size_bytes += waiter.size_bytes

    def remove(self, waiter: Waiter) -> bool:
        """Remove the waiter; return whether it was there."""
        part = self._part_of(waiter)
        if waiter not in part:
            return False
        del part[waiter]
        if waiter.size_bytes is not None:
            self.requests -= 1
            self.size_bytes -= waiter.size_bytes
        return True

    def _part_of(self, waiter: Waiter) -> OrderedDict[Waiter, None]:
        return self._begun if waiter.comes_first else self._new


def _waiting(requests: int, whose: str = "") -> str:
    return f"1 request{whose} waits for a place" if requests == 1 else f"{requests} requests{whose} wait for a place"


def _is_over(queued_bytes: int, waiter: Waiter, limit_bytes: int) -> bool:
    """Return whether the queue has no room for the body; alone it may have any size."""
    return queued_bytes > 0 and queued_bytes + (waiter.size_bytes or 0) > limit_bytes
