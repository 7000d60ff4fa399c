"""Stored turns that wait for a slot of this process: queued ones, and those that it takes over."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Lock

from turnstone.domain.errors import Overloaded, StoreUnavailable
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.refs import TurnRef
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.threads.slots import Waiter

log = logging.getLogger(__name__)
Reconcile = Callable[[TurnRef], object]


class Reservation:
    """An entry of the queue for slots, made before its turn is stored so that a full queue stores nothing."""

    def __init__(self, runs: "QueuedRuns", tenant: str) -> None:
        """Join the queue. Raises Overloaded."""
        self._runs = runs
        self._lock = Lock()
        self._ref: TurnRef | None = None
        self._settled: Waiter | None = None
        self._waiter = runs.executor.queue(tenant, self._settle, size_bytes=0)

    def begin(self, ref: TurnRef, provider_data: ProviderData) -> None:
        """Run the turn, which is stored now, once there is a slot."""
        self._runs.expect(ref, provider_data)
        with self._lock:
            self._ref = ref
            settled = self._settled
        if settled is not None:
            self._runs.settle(settled, ref)

    def leave(self) -> None:
        """Leave the queue, because nothing was stored."""
        self._runs.executor.leave(self._waiter)

    def _settle(self, waiter: Waiter) -> None:
        with self._lock:
            self._settled = waiter
            ref = self._ref
        if ref is not None:
            self._runs.settle(waiter, ref)


class QueuedRuns:
    """Reconciles each waiting turn within its slot, in a thread that no request needs.

    A turn stays as it is stored if this process stops first; the next one to read it continues.
    """

    def __init__(self, executor: TurnExecutor, reconcile: Reconcile) -> None:
        self.executor = executor
        self._reconcile = reconcile
        self._threads = DaemonThreads(1, "takeover")
        self._waiting: dict[TurnRef, ProviderData] = {}
        self._changing = Lock()

    def reserve(self, tenant: str) -> Reservation:
        """Return a reservation for a turn that is about to be stored. Raises Overloaded if the queue is full."""
        return Reservation(self, tenant)

    def wait(self, ref: TurnRef, *, comes_first: bool) -> None:
        """Reconcile the turn again once it has a slot; it queues, because requests would take every slot otherwise."""
        if not self.expect(ref, NO_PROVIDER_DATA):
            return
        try:
            self.executor.queue(ref.tenant, partial(self._settle_for, ref), comes_first=comes_first)
        except Overloaded:
            self.take(ref)

    def expect(self, ref: TurnRef, provider_data: ProviderData) -> bool:
        """Note that the turn waits here, with its caller's keys; return whether it did not yet."""
        with self._changing:
            if ref in self._waiting:
                return False
            self._waiting[ref] = provider_data
            return True

    def is_waiting(self, ref: TurnRef) -> bool:
        with self._changing:
            return ref in self._waiting

    def take(self, ref: TurnRef) -> ProviderData:
        """Remove the turn from those that wait here; return the keys of its caller."""
        with self._changing:
            return self._waiting.pop(ref, NO_PROVIDER_DATA)

    def settle(self, waiter: Waiter, ref: TurnRef) -> None:
        """Continue after the wait, in another thread: the one that released the slot has other work."""
        self._threads.run(partial(self._reconcile_in_slot, waiter, ref))

    def _settle_for(self, ref: TurnRef, waiter: Waiter) -> None:
        self.settle(waiter, ref)

    def _reconcile_in_slot(self, waiter: Waiter, ref: TurnRef) -> None:
        if not waiter.has_slot:
            self.take(ref)
            return
        try:
            self.executor.within(waiter, partial(self._reconcile, ref))
        except StoreUnavailable as unavailable:
            log.warning("turn %s is not run yet: %s", ref.turn_id, unavailable)
        finally:
            self.take(ref)
