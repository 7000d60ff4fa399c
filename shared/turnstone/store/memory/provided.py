"""Banks whose chunks another store has: which insertion of a document counts, and which ones are to be removed.

A batch is a list of insertions that do not count. It first lists those that a writer is about to store. The write that
makes them count replaces the list by the insertions that counted before, or ends it. A job removes the listed
insertions; it takes the batch first, after which the writer's own write fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.memory_providers import InsertionRef
from turnstone.ports.records import Absent, AttributeIs, Condition, Delete, Get, Operation, Put
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.keys.banks import batch_key, listed_key
from turnstone.store.layout.keys import job_key

READ_AT_ONCE = 100
LATEST_WRITER = timedelta(minutes=15)  # its insertions are removed after that
NEW, OLD = "new", "old"


class CurrentInsertion(NamedTuple):
    """The insertion of a document that counts, and the time from which it does."""

    insertion: InsertionRef
    since: datetime


class Batch(NamedTuple):
    """Insertions that do not count, with the job that removes them."""

    batch_id: str
    provider_id: str
    insertions: tuple[InsertionRef, ...]
    job: Job


class InsertionChange(NamedTuple):
    """The insertion of a document that is to count, None for none, and the one that did."""

    document_id: str
    insertion: InsertionRef | None
    before: CurrentInsertion | None


class ProvidedStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def listed(self, ref: BankRef, document_ids: Sequence[str]) -> dict[str, CurrentInsertion]:
        """Return the insertion that counts of each of these documents that has one."""
        found: dict[str, CurrentInsertion] = {}
        for begin in range(0, len(document_ids), READ_AT_ONCE):
            some = document_ids[begin : begin + READ_AT_ONCE]
            records, _ = self._store.gather([Get(listed_key(*ref[:2], each)) for each in some], [])
            for document_id, record in zip(some, records, strict=True):
                if record is not None:
                    at = record.attributes
                    insertion = InsertionRef(str(at["insertion"]), int(at["chunks"]))
                    found[document_id] = CurrentInsertion(
                        insertion, datetime.fromtimestamp(int(at["since"]) / 1_000, UTC)
                    )
        return found

    def take(self, job: Job) -> Batch | None:
        """Return the batch of the job, whose writer can't complete it any more; None if it has ended."""
        key = batch_key(job.tenant, job.order, job.name)
        record = self._store.get(key)
        if record is None:
            return None
        fields = from_json(record.body)
        batch = Batch(job.name, fields["provider"], tuple(InsertionRef(*each) for each in fields["insertions"]), job)
        if record.attributes["state"] == NEW:
            try:
                self._store.write([Put(key, record.body, {"state": OLD}, when=(AttributeIs("state", NEW),))])
            except Conflict:
                return self.take(job)  # completed just now
        return batch

    def end(self, ref: BankRef, batch: Batch) -> None:
        """End the batch, whose insertions are removed."""
        self._store.write([Delete(batch_key(*ref[:2], batch.batch_id)), Delete(job_key(batch.job))])

    def clear(self, job: Job) -> None:
        """Remove the record of a batch whose insertions are removed."""
        key = batch_key(job.tenant, job.order, job.name)
        self._store.clear(key.pk, 1, key.sk)


def new_batch(
    ref: BankRef, batch_id: str, provider_id: str, insertions: Iterable[InsertionRef], now: datetime
) -> Batch:
    job = Job(
        kind="clean_batch",
        tenant=ref.tenant,
        order=ref.content_id,
        name=batch_id,
        since=now,
        due_at=now + LATEST_WRITER,
    )
    return Batch(batch_id, provider_id, tuple(insertions), job)


def beginning(ref: BankRef, batch: Batch) -> list[Operation]:
    """Return the writes before the insertions of a batch are stored."""
    return [_put(ref, batch, NEW), put_job(batch.job)]


def listing(
    ref: BankRef, batch: Batch, changes: Sequence[InsertionChange], now: datetime, *, is_begun: bool
) -> list[Operation]:
    """Return the writes that make these insertions count, unless others of their documents came first.

    Args:
        batch: lists the insertions that counted before.
        is_begun: whether it listed the new ones before.
    """
    mine: tuple[Condition, ...] = (AttributeIs("state", NEW),) if is_begun else ()
    writes = [_listed(ref, each, now) for each in changes if each.insertion or each.before]
    if batch.insertions:
        return [*writes, _put(ref, batch, OLD, mine), *([] if is_begun else [put_job(batch.job)])]
    if is_begun:
        return [*writes, Delete(batch_key(*ref[:2], batch.batch_id), mine), Delete(job_key(batch.job))]
    return writes


def is_taken(ref: BankRef, batch: Batch, conflict: Conflict) -> bool:
    """Return whether a write failed because the job of the batch came first."""
    return bool(conflict.key == batch_key(*ref[:2], batch.batch_id))


def _listed(ref: BankRef, change: InsertionChange, now: datetime) -> Operation:
    key, before = listed_key(*ref[:2], change.document_id), change.before
    same = (Absent() if before is None else AttributeIs("insertion", before.insertion.insertion_id),)
    if change.insertion is None:
        return Delete(key, same)
    insertion_id, chunks = change.insertion
    attributes: dict[str, str | int] = {
        "insertion": insertion_id,
        "chunks": chunks,
        "since": int(now.timestamp() * 1_000),
    }
    return Put(key, b"{}", attributes, when=same)


def _put(ref: BankRef, batch: Batch, state: str, when: tuple[Condition, ...] = ()) -> Put:
    body = to_json({"provider": batch.provider_id, "insertions": batch.insertions})
    return Put(batch_key(*ref[:2], batch.batch_id), body, {"state": state}, when=when)
