"""Lease of a sweep: one record, so that two sweeps of one table never run at once."""

from datetime import datetime
from typing import NamedTuple

from turnstone.domain.errors import Conflict
from turnstone.ports.records import Absent, AttributeIs, Put, RevIs, Update
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.frames import stamp
from turnstone.store.layout.keys import sweep_key


class SweepLease(NamedTuple):
    """The right to sweep, until it is released or expires."""

    owner: str


class SweepStore:
    """The lease's record, whose format never changes: another one takes another key, so that versions never block."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def try_take(self, owner: str, now: datetime, until: datetime) -> SweepLease | None:
        """Return the lease, None if another sweep holds it. Raises StoreUnavailable."""
        key = sweep_key()
        found = self._store.get(key)
        if found is not None and str(found.attributes.get("lease_until", "")) > stamp(now):
            return None
        guard = Absent() if found is None else RevIs(found.rev)
        attributes = {"owner": owner, "lease_until": stamp(until)}
        try:
            self._store.write([Put(key, b"{}", attributes, (guard,))])
        except Conflict:
            return None  # another sweep was faster
        return SweepLease(owner)

    def release(self, lease: SweepLease, now: datetime) -> None:
        """Release the lease, unless it expired and another sweep took it. Raises StoreUnavailable."""
        try:
            self._store.write([Update(sweep_key(), {"lease_until": stamp(now)}, (AttributeIs("owner", lease.owner),))])
        except Conflict:
            return
