"""A response in the background on AWS: the worker of the unchanged state machine runs it, once.

Covers: services/responses/responses, adapters/aws/step_functions
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.aws.state_machine import Bench
from tests.support.aws.supervised import Stage, refuse_worker_call, staged
from tests.support.engine.harness import attempt
from tests.support.engine.responses import queued, read, replayed
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.sessions.sessions import UNCLAIMED_AFTER
from turnstone.domain.turns.turns import TurnStatus


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(refuse_worker_call) as machine_bench:
        yield machine_bench


@pytest.fixture
def stage(bench: Bench) -> Iterator[Stage]:
    yield from staged(bench)


def test_the_worker_runs_it_and_its_stream_is_followed_elsewhere(stage: Stage) -> None:
    worker = stage.worker("worked")
    front = stage.process()
    stored = queued(front)
    assert stored.is_queued
    events = replayed(front, response_id(stored.ref))
    assert [event["type"] for event in events[:3]] == [f"response.{n}" for n in ("created", "queued", "in_progress")]
    assert events[-1]["response"] == read(front, response_id(stored.ref))
    state = stage.assert_over(stored.ref, TurnStatus.COMPLETED)
    assert (state.takeovers, len(worker.inference.requests), len(front.inference.requests)) == (0, 1, 0)


def test_a_worker_that_dies_is_followed_by_another(stage: Stage) -> None:
    dying = stage.worker(lambda request: dying.store.die())
    stage.worker("after it")
    front = stage.process()
    stored = queued(front)
    stage.assert_over(stored.ref, TurnStatus.COMPLETED)
    assert read(front, response_id(stored.ref))["output"][0]["content"][0]["text"] == "after it"


def test_without_the_machine_the_next_reader_starts_it(stage: Stage) -> None:
    stage.worker("found")
    front = stage.process()
    front.machine.is_cut = True
    stored = queued(front)
    text = response_id(stored.ref)
    assert read(front, text)["status"] == "queued"
    front.machine.is_cut = False
    stage.clock.advance(UNCLAIMED_AFTER.total_seconds())
    assert read(front, text)["status"] == "queued"
    stage.assert_over(stored.ref, TurnStatus.COMPLETED)


def test_a_cancelled_one_is_never_run(stage: Stage) -> None:
    front = stage.process()
    front.machine.is_cut = True
    stored = queued(front)
    text = response_id(stored.ref)
    front.core.responses.cancel(LOCAL_CALLER, text, attempt())
    assert read(front, text)["status"] == "cancelled"
    assert front.inference.requests == []
