"""Batches of files in the store: a record each, in the partition of their bank."""

from __future__ import annotations

from datetime import datetime

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.vector_stores import FileBatch
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, Check, Operation, Put
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import file_batch_key, manifest_key
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.memory.banks import KIND as BANK
from turnstone.store.memory.contents import EXISTS

KIND = "file batch"
MADE = "batch_id"


class FileBatchStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def remembered(self, ref: BankRef, attempt: Attempt, now: datetime) -> FileBatch | None:
        """Return the batch of an earlier attempt of the request, None without one. Raises IdempotencyMismatch."""
        if attempt.key is None:
            return None
        (record,), _ = self._store.gather(get_remembered(ref.tenant, attempt), [])
        answer = answer_in(record, attempt, now)
        return self.get(ref, answer[MADE]) if answer else None

    def create(self, ref: BankRef, batch: FileBatch, attempt: Attempt) -> FileBatch:
        """Store the batch; return it, or that of an earlier attempt. Raises IdempotencyMismatch, NotFound."""
        key = file_batch_key(*ref[:2], batch.batch_id)
        exists = Check(manifest_key(*ref[:2]), (EXISTS,))
        writes: list[Operation] = [Put(key, batch.model_dump_json().encode(), when=(Absent(),)), exists]
        try:
            found = Once(ref.tenant, attempt, {MADE: batch.batch_id}, batch.created_at).write(self._store, writes)
        except Conflict as conflict:
            raise NotFound(BANK, ref.bank_id) from conflict
        return batch if found[MADE] == batch.batch_id else self.get(ref, found[MADE])

    def get(self, ref: BankRef, batch_id: str) -> FileBatch:
        """Return the batch. Raises NotFound."""
        record = self._store.get(file_batch_key(*ref[:2], batch_id))
        if record is None:
            raise NotFound(KIND, batch_id)
        return FileBatch.model_validate_json(record.body)
