"""Registry entries, one partition for each kind of a tenant, in the order of the identifiers."""

from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

from turnstone.domain.errors import AlreadyRegistered, Conflict, NotFound
from turnstone.domain.registry.registry import Registered
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, AttributeIs, Delete, Get, Put, Range
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.contention import retried
from turnstone.store.layout.frames import frame, wire_part
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.layout.keys import directory_key, registered_key, registered_partition
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import all_records
from turnstone.store.registry.snapshot import put_changed, rev_after

ACTIVE = {"status": "active"}
Kind = TypeVar("Kind", bound=Registered)


class RegistryStore(Generic[Kind]):
    """All registry entries of one kind, such as `model`."""

    def __init__(
        self,
        store: RangeStore,
        kind: str,
        entry: type[Kind],
        forget: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """Take the function that invalidates a tenant's directory, which each change changes."""
        self._store = store
        self._kind = kind
        self._entry = entry
        self._forget = forget

    def list(self, tenant: str) -> tuple[Kind, ...]:
        """Return all entries, in the order of their keys, without unreadable ones."""
        records = all_records(self._store, Range(registered_partition(tenant, self._kind)))
        readable = (record for record in records if not isinstance(record, UNREADABLE))
        return tuple(self._entry.model_validate_json(wire_part(record.body)) for record in readable)

    def find(self, tenant: str, identifier: str) -> Kind | None:
        """Return the entry of the identifier, None without one."""
        record = self._store.get(registered_key(tenant, self._kind, identifier))
        return None if record is None else self._entry.model_validate_json(wire_part(record.body))

    def register(self, tenant: str, entry: Kind, attempt: Attempt, now: datetime) -> None:
        """Store the entry; repeating it is harmless.

        Raises AlreadyRegistered, IdempotencyMismatch, and InvalidRequest if the registry is full.
        """
        once = Once(tenant, attempt, {"identifier": entry.identifier}, now)

        def write() -> None:
            writes = self._writes(tenant, entry, attempt, now)
            if not writes and not attempt.key:
                return
            once.write(self._store, writes)
            if writes:
                self._forget(tenant, rev_after(writes[-1]))

        retried(write, "this name is being registered too often at once, try again")

    def remove(self, tenant: str, identifier: str) -> None:
        """Remove the entry of the identifier. Raises NotFound."""
        is_there = AttributeIs("status", ACTIVE["status"])
        key = registered_key(tenant, self._kind, identifier)

        def take_out() -> None:
            listed = self._store.get(directory_key(tenant))
            changed = put_changed(tenant, listed, self._kind, {identifier: None})
            try:
                self._store.write([Delete(key, when=(is_there,)), changed])
            except Conflict as conflict:
                if conflict.key == key:
                    raise NotFound(f"registered {self._kind}", identifier) from conflict
                raise
            self._forget(tenant, rev_after(changed))

        retried(take_out, "too much is being registered at once, try again")

    def _writes(self, tenant: str, entry: Kind, attempt: Attempt, now: datetime) -> tuple[Put, ...]:
        """Return the required writes, none for an existing entry or a repeated request. Raises as `register` does."""
        key = registered_key(tenant, self._kind, entry.identifier)
        gets = [Get(key), Get(directory_key(tenant)), *get_remembered(tenant, attempt)]
        (found, listed, *remembered), _ = self._store.gather(gets, [])
        if remembered and answer_in(remembered[0], attempt, now):
            return ()
        if found is None:
            changes = {entry.identifier: entry.model_dump(mode="json")}
            return (
                Put(key, frame({}, entry.model_dump_json().encode()), ACTIVE, when=(Absent(),)),
                put_changed(tenant, listed, self._kind, changes),
            )
        if self._entry.model_validate_json(wire_part(found.body)) != entry:
            raise AlreadyRegistered(self._kind, entry.identifier)
        return ()
