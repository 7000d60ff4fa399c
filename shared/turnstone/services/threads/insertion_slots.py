"""Slots for insertions of large texts: what cuts and indexes them keeps a processor busy for seconds.

Small insertions need none. A request waits for its slot in the thread that it has anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from turnstone.domain.errors import InsertionsBusy, Overloaded
from turnstone.services.threads.slots import QueueLimits, Slots, Waiter

LARGE = 65_536  # characters; a smaller text takes less than 0.1 s (measured)
SLOTS = 3  # more of them at a time delay every other request by half a second (measured)
WAITING = QueueLimits(wait_s=20.0, requests=16, requests_of_tenant=6)


class InsertionSlots:
    def __init__(self, *, has_tenants: bool, slots: int = SLOTS, limits: QueueLimits = WAITING) -> None:
        """Reserve one slot for other tenants, where there are several."""
        self._number = slots
        self._limits = limits
        self._slots = Slots(slots, max(1, slots - 1) if has_tenants else slots, limits)

    @property
    def waiting(self) -> int:
        """Number of insertions that wait for a slot."""
        return self._slots.queued

    @contextmanager
    def taken(self, tenant: str, characters: int) -> Iterator[None]:
        """Hold a slot for an insertion of so many characters. Raises InsertionsBusy."""
        if characters < LARGE:
            yield
            return
        ready = Event()
        waiter = Waiter(tenant, lambda _: ready.set(), characters, comes_first=False)
        try:
            self._slots.join(waiter)
        except Overloaded as full:
            raise self._busy() from full
        ready.wait(self._limits.wait_s)
        try:
            if not waiter.has_slot:
                raise self._busy()
            yield
        finally:
            self._slots.leave(waiter)

    def _busy(self) -> InsertionsBusy:
        return InsertionsBusy(self._number, max(1, int(self._limits.wait_s)))
