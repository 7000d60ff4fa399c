"""Runs in the store: the address of each in the list of its tenant, with a time to live. The turn has the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnstone.domain.letta.runs import ListedRun
from turnstone.ports.records import Delete, Key, Put
from turnstone.store.layout.keys import component
from turnstone.store.layout.listing import ListEntry, entries_of, entry_of, put_entry

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.refs import TurnRef
    from turnstone.ports.storage import RangeStore


def run_list(tenant: str) -> str:
    """Return the partition of a tenant's list of runs."""
    return f"{component(tenant)}|runs"


def run_key(tenant: str, turn_id: str) -> Key:
    """Return the key of a run in the list, in the order of the turns."""
    return Key(run_list(tenant), component(turn_id))


def put_run(ref: TurnRef, run: ListedRun) -> Put:
    """Return the write of a new run beside its turn."""
    entry = put_entry(run_key(ref.tenant, ref.turn_id), run.model_dump(mode="json", exclude={"stamp"}), run.stamp)
    return entry._replace(attributes={"ttl": int(run.ends_at.timestamp())})


def run_in(entry: ListEntry) -> ListedRun:
    """Return the run of a list entry."""
    return ListedRun.model_validate({**entry.fields, "stamp": entry.stamp})


class RunStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def find(self, tenant: str, turn_id: str, now: datetime) -> ListedRun | None:
        """Return the address of the run, None if it is not in the list. Raises ContentLost."""
        record = self._store.get(run_key(tenant, turn_id))
        run = None if record is None else run_in(entry_of(record))
        return None if run is None or run.ends_at <= now else run

    def newest(self, tenant: str, limit: int) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list, newest first, read lazily."""
        return entries_of(self._store, run_list(tenant), None, limit, is_reverse=True)

    def delete(self, ref: TurnRef) -> None:
        """Remove the run from the list; its turn stays."""
        self._store.write([Delete(run_key(ref.tenant, ref.turn_id))])
