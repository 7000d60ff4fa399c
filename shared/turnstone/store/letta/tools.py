"""Tools of Python in the store: each under its own key, its name, and a small projection in the list of its tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.letta.tools import TOOL_KIND, StoredTool
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, Delete, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.tools import tool_key, tool_list, tool_list_key, tool_name_key
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.listing import ListEntry, entries_of, put_entry


class ToolStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, stored: StoredTool, attempt: Attempt, now: datetime) -> str:
        """Store a new tool and return its id, or the id in the answer to an earlier attempt of the request.

        Raises Conflict where another tool has its name, IdempotencyMismatch.
        """
        tool = stored.tool
        writes = (
            Put(tool_key(tenant, tool.tool_id), _body(stored), when=(Absent(),)),
            _put_name(tenant, stored),
            put_entry(tool_list_key(tenant, stored.order), {"tool_id": tool.tool_id}, stored.stamp),
        )
        once = Once(tenant, attempt, {"tool_id": tool.tool_id}, now)
        try:
            return once.write(self._store, writes)["tool_id"]
        except Conflict:
            earlier = once.earlier(self._store)  # its tool has the name
            if earlier is None:
                raise
            return earlier["tool_id"]

    def get(self, tenant: str, tool_id: str) -> StoredTool:
        """Return the tool. Raises NotFound, ContentLost."""
        record = self._store.get(tool_key(tenant, tool_id))
        if record is None:
            raise NotFound(TOOL_KIND, tool_id)
        return _stored_in(record)

    def id_named(self, tenant: str, name: str) -> str | None:
        """Return the id of the tool of that name, None without one."""
        record = self._store.get(tool_name_key(tenant, name))
        return None if record is None else record.body.decode()

    def gather(self, tenant: str, tool_ids: Sequence[str]) -> list[StoredTool]:
        """Return the tools in this order, without missing ones, by one request. Raises ContentLost."""
        if not tool_ids:
            return []
        records, _ = self._store.gather([Get(tool_key(tenant, tool_id)) for tool_id in tool_ids], [])
        return [_stored_in(record) for record in records if record is not None]

    def replace(self, tenant: str, stored: StoredTool, changed: StoredTool) -> None:
        """Store the changed tool.

        Raises Conflict if the tool was changed since it was read, or another one has its new name.
        """
        writes: list[Operation] = [
            Put(tool_key(tenant, stored.tool.tool_id), _body(changed), when=(RevIs(stored.rev),))
        ]
        if changed.tool.name != stored.tool.name:
            writes += [_put_name(tenant, changed), Delete(tool_name_key(tenant, stored.tool.name))]
        self._store.write(writes)

    def delete(self, tenant: str, stored: StoredTool) -> None:
        """Delete the tool. Raises Conflict if it was changed or deleted since it was read."""
        tool = stored.tool
        self._store.write(
            [
                Delete(tool_key(tenant, tool.tool_id), (RevIs(stored.rev),)),
                Delete(tool_name_key(tenant, tool.name)),
                Delete(tool_list_key(tenant, stored.order)),
            ]
        )

    def entries(self, tenant: str, after: str | None, limit: int | None) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that position, read lazily."""
        return entries_of(self._store, tool_list(tenant), after, limit)


def _put_name(tenant: str, stored: StoredTool) -> Put:
    return Put(tool_name_key(tenant, stored.tool.name), stored.tool.tool_id.encode(), when=(Absent(),))


def _body(stored: StoredTool) -> bytes:
    return stored.model_dump_json(exclude={"rev"}, exclude_defaults=True).encode()


def _stored_in(record: Record) -> StoredTool:
    return StoredTool.model_validate_json(record.body).model_copy(update={"rev": record.rev})
