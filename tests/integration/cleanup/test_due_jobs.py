"""Due clean-ups are sent at the rate at which they become due, by one sweep at a time.

Covers: store/cleanup/jobs, store/cleanup/sweeps, edge/sweep
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.jobs import RecordedJobs
from tests.support.aws.aws_events import Context
from tests.support.aws.state_machine import TABLE, Bench
from tests.support.aws.supervised import refuse_worker_call
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.sqs import SqsJobs
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.edge.sweep import ScheduledSweep
from turnstone.ports.records import MAX_OPERATIONS
from turnstone.services.cleanup.cleaning import CleanedStores, Cleaning
from turnstone.store.cleanup.jobs import JobStore, put_job
from turnstone.store.cleanup.sweeps import SweepLease, SweepStore

AT = datetime(2026, 1, 1, tzinfo=UTC)
FAR = AT + timedelta(days=365)
MANY = 5_000


class Ticking:
    """A clock that moves on by a part of a second each time it is read."""

    def __init__(self, at: datetime, tick: timedelta = timedelta(0)) -> None:
        self.at = at
        self._tick = tick

    def now(self) -> datetime:
        self.at += self._tick
        return self.at


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRangeStore]:
    store = SqliteRangeStore(tmp_path / "turnstone.db")
    yield store
    store.close()


def stored(store: Any, count: int, first: int = 0) -> list[Job]:
    """Store jobs that end sessions, one due each millisecond."""
    jobs = [
        Job(
            kind="end_session",
            tenant="acme",
            agent_id="a",
            session_id=f"s{number}",
            order=f"{number}",
            since=AT,
            due_at=AT + timedelta(milliseconds=number),
        )
        for number in range(first, first + count)
    ]
    for start in range(0, count, MAX_OPERATIONS):
        store.write([put_job(job) for job in jobs[start : start + MAX_OPERATIONS]])
    return jobs


def cleaning(store: Any, jobs: RecordedJobs, clock: Ticking) -> Cleaning:
    return Cleaning(JobStore(store), CleanedStores(*(None,) * 7), jobs, clock)  # type: ignore[arg-type] # nothing is cleaned here


def test_all_jobs_that_are_due_are_sent_within_one_sweep(store: SqliteRangeStore) -> None:
    due = stored(store, MANY)
    jobs = RecordedJobs()
    sweep = cleaning(store, jobs, Ticking(AT + timedelta(hours=1)))
    assert sweep.send_newly_due(FAR) == MANY
    assert {job.session_id for job in jobs.taken()} == {job.session_id for job in due}


def test_a_job_that_was_sent_is_not_sent_again_by_the_next_sweep_but_after_an_hour(store: SqliteRangeStore) -> None:
    stored(store, 300)
    jobs, clock = RecordedJobs(), Ticking(AT + timedelta(hours=1))
    sweep = cleaning(store, jobs, clock)
    assert sweep.send_newly_due(FAR) == 300
    stored(store, 200, first=5_000_000)
    clock.at = AT + timedelta(hours=1, minutes=50)
    assert (sweep.send_newly_due(FAR), sweep.send_newly_due(FAR)) == (200, 0)
    clock.at = AT + timedelta(hours=2)
    assert sweep.send_newly_due(FAR) == 500


def test_a_sweep_whose_time_is_over_sends_no_more_and_the_next_continues_behind_it(store: SqliteRangeStore) -> None:
    due = stored(store, 2_000)
    jobs, clock = RecordedJobs(), Ticking(AT + timedelta(hours=1))
    sweep = cleaning(store, jobs, clock)
    first = sweep.send_newly_due(clock.at)
    assert 0 < first <= 100, "a page, and no more"
    sent = [job.session_id for job in jobs.taken()]
    sweep.send_newly_due(FAR)
    sent += [job.session_id for job in jobs.taken()]
    assert sorted(sent) == sorted(job.session_id for job in due)


def test_a_job_that_the_queue_does_not_accept_is_sent_by_the_next_sweep(store: SqliteRangeStore) -> None:
    stored(store, 300)
    jobs = RecordedJobs()
    sweep = cleaning(store, jobs, Ticking(AT + timedelta(hours=1)))
    jobs.is_down = True
    with pytest.raises(StoreUnavailable):
        sweep.send_newly_due(FAR)
    jobs.is_down = False
    assert sweep.send_newly_due(FAR) == 300


# ---- on AWS


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(refuse_worker_call) as bench:
        yield bench


@pytest.fixture
def emptied(bench: Bench) -> Bench:
    for item in bench.dynamo.scan(TableName=TABLE)["Items"]:
        bench.dynamo.delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    counted(bench)
    return bench


def counted(bench: Bench) -> list[str]:
    """Return the session ids of the messages in the queue, and empty it."""
    found: list[str] = []
    while messages := bench.sqs.receive_message(QueueUrl=bench.queue_url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            bench.sqs.delete_message(QueueUrl=bench.queue_url, ReceiptHandle=message["ReceiptHandle"])
        found += [Job.model_validate_json(message["Body"]).session_id for message in messages]
    return found


def test_jobs_are_sent_in_batches_and_none_is_lost(emptied: Bench) -> None:
    calls: list[str] = []
    emptied.sqs.meta.events.register("provide-client-params.sqs", lambda model, **_: calls.append(model.name))
    due = stored(DynamoRangeStore(emptied.dynamo, TABLE), 105)
    SqsJobs(emptied.sqs, emptied.queue_url, Ticking(AT + timedelta(days=1))).send_all(due)
    assert calls == ["SendMessageBatch"] * 11
    assert sorted(counted(emptied)) == sorted(job.session_id for job in due)


def test_a_partly_accepted_batch_is_reported(emptied: Bench) -> None:
    class Refusing:
        def send_message_batch(self, Entries: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
            return {"Successful": Entries[1:], "Failed": [{"Id": "0", "Code": "Throttled"}]}

    jobs = SqsJobs(Refusing(), "queue", Ticking(AT))
    with pytest.raises(StoreUnavailable, match="1 messages: Throttled"):
        jobs.send_all([job.again_at(AT) for job in stored(DynamoRangeStore(emptied.dynamo, TABLE), 2)])


def sweeping(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> ScheduledSweep:
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    return ScheduledSweep("another module")


@pytest.mark.usefixtures("in_a_lambda")
def test_of_two_sweeps_at_once_one_does_nothing(emptied: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(DynamoRangeStore(emptied.dynamo, TABLE), 150)
    first, second = sweeping(emptied, monkeypatch), sweeping(emptied, monkeypatch)
    others: list[dict[str, Any]] = []
    send = first.core.cleaning.send_newly_due

    def overtaken(until: datetime) -> int:
        others.append(second({}, Context()))
        return send(until)

    monkeypatch.setattr(first.core.sweeper, "_duties", (overtaken,))
    answer = first({}, Context())
    assert [(other["is_skipped"], other["failed"]) for other in others] == [(True, 0)]
    assert (answer["is_skipped"], answer["failed"]) == (False, 0)
    assert len(counted(emptied)) == 150
    assert second({}, Context())["is_skipped"] is False, "the first one released its lease"


@pytest.mark.parametrize("is_first", [True, False], ids=["no record", "a record"])
def test_of_two_sweeps_that_find_no_lease_one_takes_it(
    store: SqliteRangeStore, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    sweeps, write, taken = SweepStore(store), store.write, list[object]()
    if not is_first:
        sweeps.try_take("before", AT - timedelta(hours=1), AT)

    def overtaken(operations: Any, nonce: str | None = None) -> None:
        monkeypatch.setattr(store, "write", write)
        taken.append(sweeps.try_take("second", AT, FAR))
        write(operations, nonce)

    monkeypatch.setattr(store, "write", overtaken)
    assert sweeps.try_take("first", AT, FAR) is None
    assert taken == [SweepLease("second")]


def test_a_killed_sweep_delays_the_next_one_only_until_its_time_is_over(emptied: Bench) -> None:
    sweeps = SweepStore(DynamoRangeStore(emptied.dynamo, TABLE))
    killed = sweeps.try_take("killed", AT, AT + timedelta(minutes=10))
    assert killed is not None
    assert sweeps.try_take("next", AT + timedelta(minutes=9), FAR) is None
    assert sweeps.try_take("next", AT + timedelta(minutes=11), AT + timedelta(minutes=20)) is not None
    sweeps.release(killed, AT + timedelta(minutes=12))  # it was only frozen
    assert sweeps.try_take("third", AT + timedelta(minutes=13), FAR) is None
