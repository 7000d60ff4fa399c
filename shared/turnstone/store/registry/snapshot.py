"""Snapshot of a tenant's registry as one record, which a turn reads along with its agent."""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta
from threading import Lock
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.values.moments import Moment
from turnstone.ports.records import Absent, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.ports.system import Clock
from turnstone.store.layout.keys import directory_key
from turnstone.store.layout.newer_records import UNREADABLE

REMEMBERED_FOR = timedelta(seconds=10)
MOST_TENANTS = 1_000
MAX_BYTES = 256 * 1024
Entries = Mapping[str, Mapping[str, Any]]


class Snapshot(NamedTuple):
    """A cached snapshot, its time, and the least valid revision; None after an invalidation."""

    entries: Entries
    read_at: Moment | None
    rev: int


class RegistrySnapshot:
    """The registry entries of tenants, by kind and identifier, cached for ten seconds.

    Turns read it as they begin, and direct requests before they are sent; this process's own changes apply at once.
    """

    def __init__(self, store: RangeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._cached: OrderedDict[str, Snapshot] = OrderedDict()

    def find(self, tenant: str, kind: str, identifier: str) -> Any:
        """Return the entry as JSON, None without one."""
        entries = self._fresh(tenant)
        if entries is None:
            entries = self.refresh(tenant)
        return entries.get(kind, {}).get(identifier)

    def of_kind(self, tenant: str, kind: str) -> Mapping[str, Any]:
        """Return the entries of a kind as JSON, by identifier."""
        entries = self._fresh(tenant)
        return (self.refresh(tenant) if entries is None else entries).get(kind, {})

    def last_read(self, tenant: str, kind: str) -> Mapping[str, Any]:
        """Return the entries of a kind as this process last read them, however long ago.

        Reads them only if this process never did, or has changed some since; empty if this version cannot read them.
        """
        snapshot = self._cached.get(tenant)
        if snapshot is not None and snapshot.read_at is not None:
            return snapshot.entries.get(kind, {})
        record = self._store.get(directory_key(tenant))
        return {} if isinstance(record, UNREADABLE) else self.learn(tenant, record).get(kind, {})

    def refresh(self, tenant: str) -> Entries:
        """Read it now, cached or not. Raises StoreUnavailable."""
        return self.learn(tenant, self._store.get(directory_key(tenant)))

    def learn(self, tenant: str, record: Record | None) -> Entries:
        """Cache a snapshot, unless it is older than an invalidation."""
        snapshot = Snapshot(entries_of(record), self._now(), record.rev if record else 0)
        with self._lock:
            if snapshot.rev < (self._cached[tenant].rev if tenant in self._cached else 0):
                return snapshot.entries
            self._cached[tenant] = snapshot
            self._cached.move_to_end(tenant)
            if len(self._cached) > MOST_TENANTS:
                self._cached.popitem(last=False)
        return snapshot.entries

    def learn_readable(self, tenant: str, record: Record | None) -> None:
        """Cache a snapshot; one that this version cannot read is left to `find`, so that only its readers fail."""
        if isinstance(record, UNREADABLE):
            self.forget(tenant)
        else:
            self.learn(tenant, record)

    def forget(self, tenant: str, rev: int = 0) -> None:
        """Invalidate the cache; snapshots before that revision are ignored."""
        with self._lock:
            before = self._cached.pop(tenant, None)
            self._cached[tenant] = Snapshot({}, None, max(rev, before.rev if before else 0))

    def _fresh(self, tenant: str) -> Entries | None:
        snapshot = self._cached.get(tenant)
        if snapshot is None or snapshot.read_at is None or not snapshot.read_at.is_within(REMEMBERED_FOR, self._now()):
            return None
        return snapshot.entries

    def _now(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic_s())


def put_changed(tenant: str, found: Record | None, kind: str, changes: Mapping[str, Any]) -> Put:
    """Return the write that changes some entries of a kind; None removes one. Raises InvalidRequest if it is full."""
    entries = {**entries_of(found)}
    changed = {**entries.get(kind, {}), **changes}
    entries[kind] = {identifier: entry for identifier, entry in changed.items() if entry is not None}
    body = to_json(entries)
    if len(body) > MAX_BYTES:
        raise InvalidRequest(
            f"the registry may hold {MAX_BYTES} bytes of JSON a tenant; unregister something, or register less"
        )
    return Put(directory_key(tenant), body, when=(RevIs(found.rev) if found else Absent(),))


def rev_after(put: Put) -> int:
    """Return the record's revision after that write."""
    (condition,) = put.when
    return condition.rev + 1 if isinstance(condition, RevIs) else 1


def entries_of(record: Record | None) -> Entries:
    entries: Entries = from_json(record.body) if record else {}
    return entries
