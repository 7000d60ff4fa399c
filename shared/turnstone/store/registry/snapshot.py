"""Everything that a tenant registered as one record, which a turn reads along with its agent."""

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

REMEMBERED_FOR = timedelta(seconds=10)
MOST_TENANTS = 1_000
MAX_BYTES = 256 * 1024
Entries = Mapping[str, Mapping[str, Any]]


class Known(NamedTuple):
    """What was read, when, and from which revision on it may be read again; None where it is to be read again."""

    entries: Entries
    read_at: Moment | None
    rev: int


class RegistrySnapshot:
    """What tenants registered, by kind and identifier, known for ten seconds before it is read again.

    Turns read it as they begin, direct questions before they are asked; what this process registers it knows at once.
    """

    def __init__(self, store: RangeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._known: OrderedDict[str, Known] = OrderedDict()

    def find(self, tenant: str, kind: str, identifier: str) -> Any:
        """Return what is registered as JSON has it, None if nothing is."""
        entries = self._fresh(tenant)
        if entries is None:
            entries = self.refresh(tenant)
        return entries.get(kind, {}).get(identifier)

    def refresh(self, tenant: str) -> Entries:
        """Read it now, whatever is known. Raises StoreUnavailable."""
        return self.learn(tenant, self._store.get(directory_key(tenant)))

    def learn(self, tenant: str, record: Record | None) -> Entries:
        """Take note of what was read, unless it is known to have changed since."""
        known = Known(entries_of(record), self._now(), record.rev if record else 0)
        with self._lock:
            if known.rev < (self._known[tenant].rev if tenant in self._known else 0):
                return known.entries
            self._known[tenant] = known
            self._known.move_to_end(tenant)
            if len(self._known) > MOST_TENANTS:
                self._known.popitem(last=False)
        return known.entries

    def forget(self, tenant: str, rev: int = 0) -> None:
        """Have it read again; what was read before that revision is not taken note of any more."""
        with self._lock:
            before = self._known.pop(tenant, None)
            self._known[tenant] = Known({}, None, max(rev, before.rev if before else 0))

    def _fresh(self, tenant: str) -> Entries | None:
        known = self._known.get(tenant)
        if known is None or known.read_at is None or not known.read_at.is_within(REMEMBERED_FOR, self._now()):
            return None
        return known.entries

    def _now(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic_s())


def put_changed(tenant: str, found: Record | None, kind: str, changes: Mapping[str, Any]) -> Put:
    """Return the write that changes some entries of a kind; None takes one out. Raises InvalidRequest if it is full."""
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
    """Return the revision that the record has after that write."""
    (condition,) = put.when
    return condition.rev + 1 if isinstance(condition, RevIs) else 1


def entries_of(record: Record | None) -> Entries:
    entries: Entries = from_json(record.body) if record else {}
    return entries
