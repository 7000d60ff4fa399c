"""A turn that a Lambda queues is run by the worker of the unchanged state machine, once.

Covers: services/turns/opening, services/turns/recovery, adapters/aws/step_functions
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.models.scripted import call
from tests.support.aws.state_machine import Bench
from tests.support.aws.supervised import Stage, refuse_worker_call, staged
from tests.support.engine.harness import LEASE_S, Held, answer, attempt, client_tool
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.sessions.sessions import UNCLAIMED_AFTER, LockState
from turnstone.domain.turns.turns import TurnStatus

LITTLE_S = 60.8  # just above the minute in which a worker leaves the turn to the next one


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(refuse_worker_call) as machine_bench:
        yield machine_bench


@pytest.fixture
def stage(bench: Bench) -> Iterator[Stage]:
    yield from staged(bench)


def test_the_machine_has_the_worker_run_it_at_once(stage: Stage) -> None:
    worker = stage.worker("worked")
    front = stage.process()
    started = front.start_in_background(front.session())
    assert started.is_queued
    assert stage.execution(started.ref).ended().status == "SUCCEEDED"
    state = stage.assert_over(started.ref, TurnStatus.COMPLETED)
    assert (state.takeovers, len(state.turn.steps)) == (0, 1)
    assert (len(worker.inference.requests), len(front.inference.requests)) == (1, 0)


def test_a_worker_out_of_time_leaves_it_to_the_next(stage: Stage) -> None:
    tools = {"dice": {"roll": lambda _: "4"}}
    thinking = Held("too late")
    slow = stage.worker(call("roll", "r"), thinking, tools=tools, time_left_s=LITTLE_S)
    stage.worker("in the end", tools=tools)
    front = stage.process(tools=tools)
    turn = front.start_in_background(front.session(toolgroups=["dice"])).ref
    state = stage.assert_over(turn, TurnStatus.COMPLETED)
    thinking.open()
    slow.settle()
    assert [step.step_type for step in state.turn.steps] == ["inference", "tool_execution", "inference"]
    assert state.turn.output_message.content == "in the end"


def test_a_worker_that_dies_is_followed_by_another(stage: Stage) -> None:
    dying = stage.worker(lambda request: dying.store.die())
    stage.worker("after it")
    front = stage.process()
    turn = front.start_in_background(front.session()).ref
    state = stage.assert_over(turn, TurnStatus.COMPLETED)
    assert state.takeovers == 1


def test_it_can_pause_for_its_client_and_continue(stage: Stage) -> None:
    stage.worker(call("look", "l"))
    front = stage.process("after the pause")
    turn = front.start_in_background(front.session(client_tools=[client_tool()])).ref
    stage.token(turn)
    front.drain(front.resume(turn, answer("l")))
    stage.assert_over(turn, TurnStatus.COMPLETED)


def test_without_the_machine_the_next_reader_starts_it(stage: Stage) -> None:
    stage.worker("found")
    front = stage.process()
    front.machine.is_cut = True
    turn = front.start_in_background(front.session()).ref
    assert front.header(turn).lock.state is LockState.QUEUED
    front.machine.is_cut = False
    stage.clock.advance(UNCLAIMED_AFTER.total_seconds())
    front.reader.read(LOCAL_CALLER, turn)
    stage.assert_over(turn, TurnStatus.COMPLETED)


def test_without_the_machine_the_sweeper_finds_it(stage: Stage) -> None:
    front = stage.process()
    front.machine.is_cut = True
    turn = front.start_in_background(front.session()).ref
    sweeping = stage.process("swept")
    swept = sweeping.core.sweeper.sweep(stage.clock.now() + UNCLAIMED_AFTER)
    assert swept.taken_over == (turn,)
    sweeping.settle()
    assert sweeping.state(turn).status is TurnStatus.COMPLETED


def test_a_cancelled_one_ends_the_execution_without_a_run(stage: Stage) -> None:
    worker = stage.worker("never")
    front = stage.process()
    front.machine.is_cut = True
    turn = front.start_in_background(front.session()).ref
    front.core.cancelling.cancel(LOCAL_CALLER, turn, attempt())
    front.machine.is_cut = False
    stage.clock.advance(LEASE_S)
    assert worker.work(turn.model_dump()) == {"next": "done", "seconds": 1, "status": "cancelled"}
    assert worker.inference.requests == []
