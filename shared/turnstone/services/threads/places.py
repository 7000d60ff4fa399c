"""Places for turns and direct questions: how many there are, the share of a tenant, and the queue for them."""

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
    """The limits of the queue for places.

    Attributes:
        wait_s: how long a request waits at most; 0 for no queue.
        requests: requests in the queue at most.
        requests_of_tenant: requests of one tenant in it at most.
    """

    wait_s: float
    requests: int
    requests_of_tenant: int


NO_QUEUE = QueueLimits(0.0, 0, 0)


class Waiter:
    """An entry of the queue. `settle` is called once, from any thread: it has a place, or the server stops.

    Attributes:
        size_bytes: of the request's body; None if no request waits but the server itself, which no limit holds for.
        has_place: whether it was given a place, which is its own until it leaves.
    """

    __slots__ = ("comes_first", "has_place", "is_stopped", "settle", "size_bytes", "tenant")

    def __init__(
        self, tenant: str, settle: Callable[[Waiter], None], size_bytes: int | None, *, comes_first: bool
    ) -> None:
        self.tenant = tenant
        self.settle = settle
        self.size_bytes = size_bytes
        self.comes_first = comes_first
        self.has_place = False
        self.is_stopped = False


class Places:
    """Places, each of one tenant while it is taken.

    A tenant has its share of them at most, even while no other tenant needs any: a place that a slow model holds
    could not be had back for a tenant that comes later. A place that is given back goes to the tenants of the queue in
    turns; of one tenant, what was begun goes before what is new, and both in the order in which they came.
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
        """How many requests are in the queue."""
        return self._queued

    def take(self, tenant: str) -> None:
        """Take a place for the tenant. Raises Overloaded if there is none for it now."""
        with self._lock:
            self._take(tenant)

    def give_back(self, tenant: str) -> None:
        """Give a place back, to the queue first of all."""
        with self._lock:
            self._taken -= 1
            self._taken_by[tenant] -= 1
            if not self._taken_by[tenant]:
                del self._taken_by[tenant]
            served = list(self._served())
        for waiter in served:
            waiter.settle(waiter)

    def join(self, waiter: Waiter) -> None:
        """Put the waiter into the queue, or give it a place at once. Raises Overloaded if it may not wait either."""
        with self._lock:
            try:
                self._take(waiter.tenant)
            except Overloaded as full:
                self._refuse_beyond_limits(waiter, full)
                self._enqueue(waiter)
                return
            waiter.has_place = True
        waiter.settle(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Take the waiter out of the queue, or give its place back."""
        with self._lock:
            is_queued = not waiter.has_place
            if is_queued:
                self._dequeue(waiter)
        if not is_queued:
            self.give_back(waiter.tenant)

    def stop(self) -> None:
        """Give nobody a place any more; who has one keeps it, and the queue is emptied."""
        with self._lock:
            self._is_stopping = True
            stopped = [waiter for queue in self._queues.values() for waiter in queue]
            for waiter in stopped:
                waiter.is_stopped = True
                self._dequeue(waiter)
        for waiter in stopped:
            waiter.settle(waiter)

    def refusal(self, waiter: Waiter) -> Overloaded:
        """Return why the waiter got no place, which is not in the queue any more."""
        if waiter.is_stopped:
            return Stopping(self._capacity)
        full: Overloaded = Overloaded(self._capacity)
        if self._taken_by[waiter.tenant] >= self._share < self._capacity:
            full = TenantOverloaded(self._share, self._capacity)
        return self._told(full, f"no place became free within {self.limits.wait_s:g} s (TURNSTONE_PLACE_WAIT_SECONDS)")

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
        """Raise that there is no place for the waiter if it may not wait for one."""
        if isinstance(full, Stopping) or not self.limits.wait_s:
            raise full
        if waiter.size_bytes is None:
            return
        own = self._queues.get(waiter.tenant)
        own_requests, own_bytes = (own.requests, own.size_bytes) if own else (0, 0)
        own_waiting = _waiting(own_requests, " of this tenant" if self._has_tenants else "")
        if self._has_tenants and own_requests >= self.limits.requests_of_tenant:
            raise self._told(full, f"{own_waiting} (the limit TURNSTONE_MAX_TENANT_WAITING_REQUESTS)")
        if self._queued >= self.limits.requests:
            raise self._told(full, f"{_waiting(self._queued)} (the limit TURNSTONE_MAX_WAITING_REQUESTS)")
        if _is_over(own_bytes, waiter, TENANT_QUEUE_BYTES):
            raise self._told(full, f"{own_waiting}, with as many bytes as may wait")
        if _is_over(self._queued_bytes, waiter, QUEUE_BYTES):
            raise self._told(full, f"{_waiting(self._queued)}, with as many bytes as may wait")

    def _told(self, full: Overloaded, why: str) -> Overloaded:
        """Return the error with why the request did not wait on, and when whatever waits now has been answered."""
        full.why_not_later = why
        full.retry_after_s = max(1, ceil(self.limits.wait_s))
        return full

    def _served(self) -> Iterator[Waiter]:
        """Yield those of the queue that are given a place now."""
        while self._taken < self._capacity and not self._is_stopping:
            tenant = next((each for each in self._queues if self._taken_by[each] < self._share), None)
            if tenant is None:
                return
            waiter = self._queues[tenant].first()
            self._queues.move_to_end(tenant)
            self._dequeue(waiter)
            self._take(tenant)
            waiter.has_place = True
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
        """Take the waiter out of the queue; nothing happens if it is not in it any more."""
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
    """Return whether the body is too much beside the others; alone it may be as large as a body may."""
    return queued_bytes > 0 and queued_bytes + (waiter.size_bytes or 0) > limit_bytes
