"""Jobs of Letta's API in the store: an entry each in the list of their tenant, with a time to live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnstone.domain.letta.sources import ListedJob
from turnstone.ports.records import Delete, Key
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.layout.keys import component
from turnstone.store.layout.listing import ListEntry, entries_of, entry_of, put_entry

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.turns.attempts import Attempt
    from turnstone.ports.storage import RangeStore

MADE = "job"


def job_list(tenant: str) -> str:
    """Return the partition of a tenant's list of jobs."""
    return f"{component(tenant)}|letta_jobs"


def listed_in(entry: ListEntry) -> ListedJob:
    """Return the job of a list entry."""
    return ListedJob.model_validate({**entry.fields, "stamp": entry.stamp})


class LettaJobStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def remembered(self, tenant: str, attempt: Attempt, now: datetime) -> ListedJob | None:
        """Return the job of an earlier attempt of the request, None without one. Raises IdempotencyMismatch."""
        if attempt.key is None:
            return None
        (record,), _ = self._store.gather(get_remembered(tenant, attempt), [])
        answer = answer_in(record, attempt, now)
        return ListedJob.model_validate_json(answer[MADE]) if answer else None

    def create(self, tenant: str, job: ListedJob, attempt: Attempt) -> ListedJob:
        """Store the job; return it, or that of an earlier attempt. Raises IdempotencyMismatch."""
        key = Key(job_list(tenant), component(job.order))
        entry = put_entry(key, job.model_dump(mode="json", exclude={"stamp"}), job.stamp)
        write = entry._replace(attributes={"ttl": int(job.ends_at.timestamp())})
        once = Once(tenant, attempt, {MADE: job.model_dump_json()}, job.created_at)
        return ListedJob.model_validate_json(once.write(self._store, [write])[MADE])

    def find(self, tenant: str, order: str, now: datetime) -> ListedJob | None:
        """Return the job, None if it is not in the list. Raises ContentLost."""
        record = self._store.get(Key(job_list(tenant), component(order)))
        job = None if record is None else listed_in(entry_of(record))
        return None if job is None or job.ends_at <= now else job

    def newest(self, tenant: str, limit: int) -> Iterator[ListedJob]:
        """Yield the jobs of the tenant's list, newest first, read lazily."""
        return map(listed_in, entries_of(self._store, job_list(tenant), None, limit, is_reverse=True))

    def delete(self, tenant: str, order: str) -> None:
        """Remove the job from the list; its document stays."""
        self._store.write([Delete(Key(job_list(tenant), component(order)))])
