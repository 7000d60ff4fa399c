"""Memory blocks in the store: each under its own key, and a small projection in the list of its tenant.

An edit reads the block and writes it on condition that it is unchanged, so that no edit of another agent is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from turnstone.domain.agents.blocks import BLOCK_KIND, MemoryBlock, StoredBlock
from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, Delete, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.blocks import block_key, block_list, block_list_key
from turnstone.store.layout.contention import TRIES_OF_TURNS, retried
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.listing import ListEntry, entries_of, put_entry

BUSY = "the memory block is being changed too often at once, try again"


class BlockStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, stored: StoredBlock, attempt: Attempt, now: datetime) -> str:
        """Store a new block and return its id, or the id in the answer to an earlier attempt of the request."""
        answer = {"block_id": stored.block.block_id}
        return Once(tenant, attempt, answer, now).write(self._store, puts_of_new(tenant, stored))["block_id"]

    def get(self, tenant: str, block_id: str) -> StoredBlock:
        """Return the block. Raises NotFound, ContentLost."""
        return _block_of(self._store.get(block_key(tenant, block_id)), block_id)

    def gather(self, tenant: str, block_ids: Sequence[str]) -> list[StoredBlock]:
        """Return the blocks in this order, without missing ones, by one request. Raises ContentLost."""
        if not block_ids:
            return []
        records, _ = self._store.gather([Get(block_key(tenant, block_id)) for block_id in block_ids], [])
        return [_stored_in(record) for record in records if record is not None]

    def change(self, tenant: str, block_id: str, act: Callable[[StoredBlock], StoredBlock]) -> StoredBlock:
        """Store what the function makes of the block, called again if another writer comes in between.

        Raises NotFound, ContentLost, StoreUnavailable, and as the function does.
        """

        def attempt() -> StoredBlock:
            stored = self.get(tenant, block_id)
            changed = act(stored)
            if changed != stored:
                self._store.write(puts_of_change(tenant, stored, changed))
            return changed

        return retried(attempt, BUSY, TRIES_OF_TURNS, on=(Conflict,))

    def edit(
        self, tenant: str, block_id: str, key: str | None, act: Callable[[MemoryBlock], MemoryBlock]
    ) -> MemoryBlock:
        """Make an edit once for its key, however often it is requested. Raises as `change` does."""

        def edited(stored: StoredBlock) -> StoredBlock:
            if key is not None and key in stored.applied:
                return stored
            return stored.edited(act(stored.block), key)

        return self.change(tenant, block_id, edited).block

    def delete(self, tenant: str, stored: StoredBlock) -> None:
        """Delete the block. Raises Conflict if it was changed or deleted since it was read."""
        self._store.write(deletes_of(tenant, stored))

    def entries(self, tenant: str, after: str | None, limit: int | None) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that position, read lazily."""
        return entries_of(self._store, block_list(tenant), after, limit)


def puts_of_new(tenant: str, stored: StoredBlock) -> tuple[Put, Put]:
    """Return the writes of a new block."""
    record = Put(block_key(tenant, stored.block.block_id), _body(stored), when=(Absent(),))
    return record, _entry(tenant, stored)


def puts_of_change(tenant: str, stored: StoredBlock, changed: StoredBlock) -> tuple[Put, ...]:
    """Return the writes of a changed block, on condition that it is as it was read."""
    record = Put(block_key(tenant, stored.block.block_id), _body(changed), when=(RevIs(stored.rev),))
    if _listed(stored) == _listed(changed):
        return (record,)
    return record, _entry(tenant, changed)._replace(when=())


def deletes_of(tenant: str, stored: StoredBlock) -> tuple[Operation, ...]:
    """Return the writes that delete a block, on condition that it is as it was read."""
    return (
        Delete(block_key(tenant, stored.block.block_id), (RevIs(stored.rev),)),
        Delete(block_list_key(tenant, stored.order)),
    )


def _body(stored: StoredBlock) -> bytes:
    return stored.model_dump_json(exclude={"rev"}, exclude_defaults=True).encode()


def _listed(stored: StoredBlock) -> dict[str, object]:
    block = stored.block
    return {"block_id": block.block_id, "label": block.label, "name": block.name, "is_template": block.is_template}


def _entry(tenant: str, stored: StoredBlock) -> Put:
    return put_entry(block_list_key(tenant, stored.order), _listed(stored), stored.stamp)


def _block_of(record: Record | None, block_id: str) -> StoredBlock:
    if record is None:
        raise NotFound(BLOCK_KIND, block_id)
    return _stored_in(record)


def _stored_in(record: Record) -> StoredBlock:
    return StoredBlock.model_validate_json(record.body).model_copy(update={"rev": record.rev})
