"""Clean-up jobs as records, each written in the transaction that causes it."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import ValidationError

from turnstone.domain.errors import Conflict, ContentLost, RecordTooNew, StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.ports.records import Delete, Get, Key, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.ports.supervision import Jobs
from turnstone.store.layout.keys import job_key, job_shard, job_shards, job_time

log = logging.getLogger(__name__)
KEYS_AT_ONCE = 100
MOMENT = timedelta(microseconds=1)


def put_job(job: Job) -> Put:
    """Return the write that stores the job."""
    key = job_key(job)
    return Put(key, job.to_json().encode(), {"open": job_shard(key)})


class DuePage(NamedTuple):
    """Some due jobs of a shard; `last` is the key after which the next page begins."""

    shard: str
    last: Key
    jobs: tuple[Job, ...]


class JobStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def is_open(self, job: Job) -> bool:
        """Return whether the job is still pending, with the same due time."""
        return self._store.get(job_key(job)) is not None

    def settle(self, job: Job, *writes: Operation) -> bool:
        """Apply the writes and end the job; return False if another process has ended it.

        Raises:
            Conflict: one of the writes conflicts.
        """
        key = job_key(job)
        try:
            self._store.write([*writes, Delete(key, (RevIs(1),))])
        except Conflict as conflict:
            if conflict.key != key:
                raise
            return False
        return True

    def due(self, at: datetime) -> Iterator[Job]:
        """Yield the jobs due by then, the longest due of each shard first.

        Skips a record without a recognised job, such as a corrupt one or one of a newer version.
        """
        for shard in job_shards():
            for page in self._due_pages(shard, at, None):
                yield from page.jobs

    def due_in_turns(self, at: datetime, after: Mapping[str, Key]) -> Iterator[DuePage]:
        """Yield the jobs due by then as pages, one page of each shard after the other.

        Args:
            after: the key to begin after, by shard; default: the shard's first.
        """
        waiting = deque(self._due_pages(shard, at, after.get(shard)) for shard in job_shards())
        while waiting:
            shard_pages = waiting.popleft()
            page = next(shard_pages, None)
            if page is not None:
                yield page
                waiting.append(shard_pages)

    def _due_pages(self, shard: str, at: datetime, after: Key | None) -> Iterator[DuePage]:
        for keys in self._due_keys(shard, job_time(at + MOMENT), after):
            records, _ = self._store.gather([Get(key) for key in keys], [])
            yield DuePage(shard, keys[-1], tuple(_recognised(record for record in records if record is not None)))

    def _due_keys(self, shard: str, before: str, after: Key | None) -> Iterator[Sequence[Key]]:
        while True:
            page = self._store.open_keys(shard, KEYS_AT_ONCE, after)
            if due := [key for key in page.keys if key.pk < before]:
                yield due
            after = page.after
            if after is None or len(due) < len(page.keys):
                return


def _recognised(records: Iterable[Record]) -> Iterator[Job]:
    for record in records:
        try:
            job = Job.model_validate_json(record.body)
        except (ValidationError, ContentLost, RecordTooNew):
            log.warning("skipping record %r: not a recognised job", record.key.pk)
        else:
            yield job


def later(job: Job, at: datetime) -> Job:
    """Return the same job at that time, or the next possible one: only its time distinguishes it from the original."""
    return job.again_at(max(at, job.due_at + MOMENT))


def sent(jobs: Jobs, *some: Job) -> None:
    """Enqueue the jobs, whose records are stored: the sweeper resends a job that can't be enqueued now."""
    try:
        jobs.send_all(some)
    except StoreUnavailable as unavailable:
        log.warning("clean-up job not enqueued; the sweeper will resend it: %s", unavailable)
