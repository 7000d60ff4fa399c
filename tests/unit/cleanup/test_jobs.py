"""Which clean-up jobs are due, over a double of the store whose pages are small.

Covers: store/cleanup/jobs
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnstone.domain.jobs import Job
from turnstone.ports.records import Get, Key, KeyPage, Range, Record, RecordPage
from turnstone.store.cleanup.jobs import MOMENT, JobStore, later, put_job

AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


class SmallPages:
    """Jobs in an index with pages of two jobs."""

    def __init__(self, *jobs: Job) -> None:
        puts = sorted(map(put_job, jobs), key=lambda put: put.key)
        self.records = {put.key: Record(put.key, put.body, dict(put.attributes), 1) for put in puts}
        self.pages = 0

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        assert 1 <= limit <= 100, "one batch of reads takes a hundred keys"
        self.pages += 1
        keys = [key for key, record in self.records.items() if record.attributes["open"] == shard]
        begin = keys.index(after) + 1 if after else 0
        page = tuple(keys[begin : begin + 2])
        return KeyPage(page, page[-1] if begin + 2 < len(keys) else None)

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        return [self.records.get(get.key) for get in gets], []


def job(number: int, due_at: datetime) -> Job:
    return Job(kind="clean_agent", tenant="t", agent_id=f"a{number}", order="o", since=AT, due_at=due_at)


def due(store: Any, at: datetime = AT) -> list[Job]:
    return list(JobStore(store).due(at))


def by_name(jobs: Sequence[Job]) -> list[str]:
    return sorted(each.agent_id for each in jobs)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 60])
def test_every_job_that_is_due_is_found_and_none_that_is_not(count: int) -> None:
    over = [job(number, AT - timedelta(minutes=number)) for number in range(count)]
    store = SmallPages(*over, *(job(number + count, AT + MOMENT) for number in range(count)))
    assert by_name(due(store)) == by_name(over)
    assert due(store, AT - timedelta(days=1)) == []
    assert len(due(store, AT + MOMENT)) == 2 * count


def test_no_page_is_read_behind_the_last_that_is_due() -> None:
    one = job(0, AT)
    store = SmallPages(one, *(job(number, AT + timedelta(hours=number)) for number in range(1, 100)))
    due(store, AT - MOMENT)
    shards = store.pages
    store.pages = 0
    assert due(store) == [one]
    assert store.pages == shards


def test_a_record_that_is_not_a_job_hides_no_other() -> None:
    jobs = [job(number, AT) for number in range(20)]
    store = SmallPages(*jobs)
    broken = put_job(jobs[3]).key
    store.records[broken] = Record(broken, b'{"kind":"from tomorrow"}', store.records[broken].attributes, 1)
    assert by_name(due(store)) == by_name([each for each in jobs if each is not jobs[3]])


@pytest.mark.parametrize(("at", "expected"), [(AT, AT + MOMENT), (AT + MOMENT, AT + MOMENT), (AT + 9 * MOMENT,) * 2])
def test_the_same_work_is_a_job_of_its_own_later(at: datetime, expected: datetime) -> None:
    first = job(0, AT)
    again = later(first, at)
    assert (again.due_at, again.agent_id) == (expected, first.agent_id)
    assert put_job(again).key != put_job(first).key
