"""Stored chat completions: each under its own key, and a small projection in the list of its tenant.

Both have a time to live, after which they are invisible, removed or not. A large one is stored as a payload, and a
clean-up job, stored in the same write, removes that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.errors import Conflict, ContentLost, NotFound, RecordTooNew
from turnstone.domain.models.stored_completions import StoredCompletion
from turnstone.ports.records import Absent, Condition, Delete, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.keys import completion_key, completion_list, completion_list_key
from turnstone.store.layout.listing import ListEntry, entries_of, entry_of, put_entry
from turnstone.store.sessions.long_texts import with_long_texts_left
from turnstone.store.sessions.wire_turns import WireTurn, opened, wire_of

if TYPE_CHECKING:
    from turnstone.domain.jobs import Job
    from turnstone.domain.values.content import Restore

KIND = "chat completion"
LARGE_BYTES = 256 * 1024  # of wire JSON; a smaller one fits in a record even uncompressed
HELD_BYTES = 128 * 1024


class FoundCompletion(NamedTuple):
    """A stored chat completion with its wire JSON.

    Attributes:
        rev: of its record.
        restore: restores long texts in JSON derived from the wire JSON; None without missing texts.
    """

    completion: StoredCompletion
    wire: bytes
    rev: int
    restore: Restore | None = None


class ReadCompletion(NamedTuple):
    """A stored chat completion for sending: wire JSON in pieces if it is large."""

    completion: StoredCompletion
    wire: WireTurn


class StoredCompletionStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, completion: StoredCompletion, wire: bytes) -> None:
        """Store a new one."""
        kept = _with_size(completion, wire)
        self._store.write([*_writes(tenant, kept, wire, Absent()), *_ending(tenant, kept)])

    def find(self, tenant: str, completion_id: str) -> FoundCompletion:
        """Return the completion, expired or not. Raises NotFound, ContentLost."""
        record = self._store.get(completion_key(tenant, completion_id))
        if record is None:
            raise NotFound(KIND, completion_id)
        completion = StoredCompletion.model_validate(private_part(record.body))
        return FoundCompletion(completion, wire_part(record.body), record.rev)

    def without_long_texts(self, tenant: str, completion_id: str) -> FoundCompletion:
        """Return the completion without its long texts, which stay in the store. Raises as `find` does."""
        record, restore = with_long_texts_left(self._record(tenant, completion_id))
        completion = StoredCompletion.model_validate(private_part(record.body))
        return FoundCompletion(completion, wire_part(record.body), record.rev, restore)

    def read(self, tenant: str, completion_id: str) -> ReadCompletion:
        """Return the completion for sending unchanged. Raises as `find` does."""
        private, wire = opened(self._record(tenant, completion_id))
        return ReadCompletion(StoredCompletion.model_validate(private), wire)

    def _record(self, tenant: str, completion_id: str) -> Record:
        (record,), _ = self._store.gather([Get(completion_key(tenant, completion_id), HELD_BYTES)], [])
        if record is None:
            raise NotFound(KIND, completion_id)
        return record

    def listed(self, tenant: str, completion_id: str) -> StoredCompletion:
        """Return the completion's list entry, also if its content is lost. Raises NotFound."""
        record = self._store.get(completion_list_key(tenant, completion_id))
        if record is None:
            raise NotFound(KIND, completion_id)
        return completion_in(entry_of(record))

    def replace(self, tenant: str, found: FoundCompletion, completion: StoredCompletion, wire: bytes) -> bool:
        """Store the new state; return False if the completion was changed or deleted since it was read."""
        kept = _with_size(completion, wire)
        ending = _ending(tenant, kept) if kept.is_large and not found.completion.is_large else ()
        record, entry = _writes(tenant, kept, wire, RevIs(found.rev))
        try:
            self._store.write([record, entry._replace(when=()), *ending])
        except Conflict as conflict:
            if conflict.key != record.key:
                raise
            return False
        return True

    def delete(self, tenant: str, completion: StoredCompletion, now: datetime) -> Job | None:
        """Hide the completion from every reader; return the job that removes its payload, if it has one.

        Raises:
            NotFound: it was deleted in the meantime.
        """
        entry = completion_list_key(tenant, completion.completion_id)
        job = _job(tenant, completion, now, now) if completion.is_large else None
        writes: list[Operation] = [
            Delete(entry, (RevIs(1),)),  # always true of an entry, because its changes have no condition
            Delete(completion_key(tenant, completion.completion_id)),
            *(_put(job) if job else ()),
        ]
        try:
            self._store.write(writes)
        except Conflict as conflict:
            raise NotFound(KIND, completion.completion_id) from conflict
        return job

    def clear(self, job: Job, limit: int) -> bool:
        """Remove the rest of a completion, payloads included; return whether nothing is left."""
        record, entry = completion_key(job.tenant, job.order), completion_list_key(job.tenant, job.order)
        return self._store.clear(record.pk, limit) and self._store.clear(entry.pk, limit, entry.sk)

    def entries(self, tenant: str, after: str | None, limit: int, *, is_reverse: bool) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that position, read lazily."""
        return entries_of(self._store, completion_list(tenant), after, limit, is_reverse=is_reverse)

    def wires(
        self, tenant: str, completions: Sequence[StoredCompletion]
    ) -> Iterator[tuple[StoredCompletion, WireTurn | None]]:
        """Yield the existing completions with their wire JSON, None where it is lost; skips those too new."""
        gets = [Get(completion_key(tenant, each.completion_id), HELD_BYTES) for each in completions]
        records, _ = self._store.gather(gets, [])
        for completion, record in zip(completions, records, strict=True):
            if record is None:
                continue
            try:
                yield completion, wire_of(record)
            except ContentLost:
                yield completion, None
            except (NotFound, RecordTooNew):  # deleted since, or another version's
                continue


def completion_in(entry: ListEntry) -> StoredCompletion:
    """Return the completion of a list entry."""
    return StoredCompletion.model_validate({**entry.fields, "stamp": entry.stamp})


def _with_size(completion: StoredCompletion, wire: bytes) -> StoredCompletion:
    """Return the completion; one that was large stays so, because its older payloads must be removed, too."""
    return completion.model_copy(update={"is_large": completion.is_large or len(wire) > LARGE_BYTES})


def _writes(tenant: str, completion: StoredCompletion, wire: bytes, when: Condition) -> tuple[Put, Put]:
    """Return the writes of the record and of its entry in the list."""
    ttl = {"ttl": int(completion.ends_at.timestamp())}
    fields = completion.model_dump(mode="json", exclude_defaults=True)
    record = Put(
        completion_key(tenant, completion.completion_id),
        frame(fields, wire),
        ttl,
        when=(when,),
        is_apart=completion.is_large,
    )
    shown = {name: value for name, value in fields.items() if name != "stamp"}
    entry = put_entry(completion_list_key(tenant, completion.completion_id), shown, completion.stamp)
    return record, entry._replace(attributes=ttl)


def _ending(tenant: str, completion: StoredCompletion) -> tuple[Operation, ...]:
    """Return the write of the job that removes a large one at its expiry."""
    if not completion.is_large:
        return ()
    return _put(_job(tenant, completion, completion.created_at, completion.ends_at))


def _put(job: Job) -> tuple[Operation, ...]:
    from turnstone.store.cleanup.jobs import put_job  # only for a large one

    return (put_job(job),)


def _job(tenant: str, completion: StoredCompletion, since: datetime, due_at: datetime) -> Job:
    from turnstone.domain.jobs import Job

    return Job(kind="clean_completion", tenant=tenant, order=completion.completion_id, since=since, due_at=due_at)
