"""Deletion and clean-up over DynamoDB and S3, as far as moto shows them.

Covers: services/cleanup/cleaning, adapters/aws/sqs, adapters/aws/s3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random

import pytest

from tests.fakes.models.scripted import call
from tests.support.aws.recording_client import RecordingClient
from tests.support.aws.state_machine import BUCKET, TABLE, Bench
from tests.support.cases import rest_at_night
from tests.support.engine.harness import FakeClock, ManualSupervisor, Server, outline, saves_step
from turnstone.adapters.aws.dynamodb import BATCH_DELETES, DynamoRangeStore
from turnstone.adapters.aws.dynamodb_items import encoded_key
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.aws.sqs import LONGEST_DELAY_S, SqsJobs
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS, RECORDS_AT_ONCE
from turnstone.settings.config import Settings
from turnstone.store.layout.keys import turn_key
from turnstone.store.layout.oversize import RECORD_BYTES, OversizeStore

TURNS = 2_000
TURNS_AT_NIGHT = 10_000
NO_TIME, LONG = timedelta(0), timedelta(hours=1)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(lambda payload: pytest.fail(f"the worker was invoked with {payload}")) as bench:
        yield bench


class Cloud(Server):
    def __init__(self, bench: Bench, *script: object) -> None:
        self.recorded = RecordingClient(bench.dynamo)
        table = DynamoRangeStore(self.recorded, TABLE)
        clock = FakeClock()
        tools = {"dice": {"roll": lambda arguments: "4"}}
        super().__init__(OversizeStore(table, S3BlobStore(bench.s3, BUCKET)), clock, list(script), tools)  # type: ignore[arg-type]
        self.load(ManualSupervisor(clock), Settings())
        self.fake_clock = clock

    def run_all(self) -> int:
        parts = 0
        while jobs := self.jobs.taken():
            for job in jobs:
                self.fake_clock.at = max(self.fake_clock.at, job.due_at)
                self.core.cleaning.run_for(job, NO_TIME)
                parts += 1
        return parts


def left(bench: Bench) -> list[str]:
    pages = bench.dynamo.get_paginator("scan").paginate(TableName=TABLE, ProjectionExpression="pk, sk")
    return [f"{item['pk']['S']} {item['sk']['S']}" for page in pages for item in page["Items"]]


def objects(bench: Bench) -> int:
    count: int = bench.s3.list_objects_v2(Bucket=BUCKET)["KeyCount"]
    return count


def test_an_agent_with_a_running_turn_and_large_payloads_leaves_nothing(bench: Bench) -> None:
    cloud = Cloud(bench, call("roll", "r"), "never")
    ref = cloud.session(toolgroups=["dice"])
    cloud.store.before(saves_step, lambda: cloud.core.deleting.delete_agent(LOCAL_CALLER, ref.agent_id))
    cloud.store.before(saves_step, cloud.run_all)
    events = cloud.whole_turn(ref, Random(0).randbytes(RECORD_BYTES).hex())
    assert outline(events).endswith("failed:gone")
    with pytest.raises(NotFound):
        cloud.core.sessions.read(LOCAL_CALLER, ref, None)
    cloud.run_all()
    assert (left(bench), objects(bench), cloud.core.cleaning.due()) == ([], 0, ())


@pytest.mark.slow
@pytest.mark.parametrize("turns", rest_at_night((TURNS, TURNS_AT_NIGHT), always=(TURNS,)))
def test_many_turns_are_removed_in_batches_and_parts(bench: Bench, turns: int) -> None:
    cloud = Cloud(bench)
    ref = cloud.session()
    fill(bench, ref, turns)
    cloud.core.deleting.delete_session(LOCAL_CALLER, ref)
    cloud.recorded.requests.clear()
    parts = cloud.run_all()
    assert parts == turns // RECORDS_AT_ONCE + 2
    requests = Counter(request.name for request in cloud.recorded.requests)
    assert requests["BatchWriteItem"] == turns // BATCH_DELETES
    assert requests["Query"] == parts
    assert not [line for line in left(bench) if ref.session_id in line]


def fill(bench: Bench, ref: SessionRef, turns: int) -> None:
    items = [
        {**encoded_key(turn_key(ref, f"{number:06}")), "body": {"B": b"turn"}, "rev": {"N": "1"}}
        for number in range(turns)
    ]
    for first in range(0, turns, BATCH_DELETES):
        puts = [{"PutRequest": {"Item": item}} for item in items[first : first + BATCH_DELETES]]
        bench.dynamo.batch_write_item(RequestItems={TABLE: puts})


def test_a_message_waits_for_its_time_and_one_of_much_later_is_not_sent(bench: Bench) -> None:
    clock = FakeClock()
    jobs = SqsJobs(bench.sqs, bench.queue_url, clock)
    job = Job(kind="end_session", tenant="t", agent_id="a", session_id="s", order="o", since=clock.at, due_at=clock.at)
    jobs.send(job.again_at(clock.at + timedelta(seconds=LONGEST_DELAY_S + 1)))
    assert "Messages" not in bench.sqs.receive_message(QueueUrl=bench.queue_url)
    jobs.send(job)
    (message,) = bench.sqs.receive_message(QueueUrl=bench.queue_url)["Messages"]
    assert Job.model_validate_json(message["Body"]) == job
    jobs.send(job.again_at(clock.at + LATE_PAYLOADS))
    assert "Messages" not in bench.sqs.receive_message(QueueUrl=bench.queue_url)
