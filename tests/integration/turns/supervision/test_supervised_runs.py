"""A turn that is or was running when the state machine polls it is taken over only if its process is gone.

Covers: services/turns/recovery, domain/turns/supervision
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.fakes.models.scripted import Reply, call
from tests.support.aws.state_machine import Bench
from tests.support.aws.supervised import Process, Stage, kinds, refuse_worker_call, staged
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Gate,
    Held,
    Matches,
    ProcessDied,
    answer,
    client_tool,
    completes_turn,
    drained_events,
    finished_steps,
    outline,
    resumes_turn,
    saves_step,
    takes_over,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.turns.supervision import AFTER_DEADLINE_S, GONE
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Delete
from turnstone.services.turns.recovery import MAX_TAKEOVERS
from turnstone.store.layout.keys import agent_key, session_key, turn_key_of

CLIENT_CALL = call("look", "l")
DICE = {"dice": {"roll": lambda arguments: "4"}}
ROLLED = ["inference", "tool_execution", "inference"]
TAKEN_OVER = ["Route", "Attend", "Route", "Notify", "Ended"]
A_MOMENT_S = 60.8  # just above the minute in which a worker leaves the turn to the next one
RETRY_AFTER_S = 35
ENOUGH = 100


def roll(number: int) -> Reply:
    return call("roll", f"r{number}")


def answering(request: InferenceRequest) -> Reply:
    return roll(1) if request.messages[-1].role == "user" else "You rolled 4."


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(refuse_worker_call) as machine_bench:
        yield machine_bench


@pytest.fixture
def stage(bench: Bench) -> Iterator[Stage]:
    yield from staged(bench)


@pytest.fixture
def impatient(bench: Bench) -> Iterator[Stage]:
    """A stage whose machine waits for a client a second at most, whatever the turn's deadline."""
    yield from staged(bench, client_waits_s=1)


@pytest.fixture
def hasty(bench: Bench) -> Iterator[Stage]:
    """A stage whose state machine polls a running turn at once."""
    yield from staged(bench, watches_s=0)


def paused(stage: Stage, *more: Reply | Held) -> tuple[Process, TurnRef]:
    process = stage.process(CLIENT_CALL, *more)
    return process, process.paused(process.session(client_tools=[client_tool()]))


def abandoned(stage: Stage) -> TurnRef:
    """Return a turn whose process died while its model answered, and whose lease is over."""
    process = stage.process(lambda request: process.store.die(), tools=DICE)
    broadcast = process.start(process.session(toolgroups=["dice"]))
    process.drain(broadcast)
    stage.clock.advance(LEASE_S)
    return broadcast.ref


def abandoned_after_its_resume(stage: Stage) -> tuple[TurnRef, str]:
    """Return a turn whose process died before it woke the machine, and whose lease is over; and its token."""
    process, turn = paused(stage)
    token = stage.token(turn)
    process.store.after(resumes_turn, process.store.die)
    with pytest.raises(ProcessDied):
        process.resume(turn, answer("l"))
    stage.clock.advance(LEASE_S)
    return turn, token


def read(stage: Stage, turn: TurnRef, *script: Reply) -> Process:
    """Read the turn, so that it is reconciled; return the process that read it."""
    reader = stage.process(*script)
    reader.reader.read(LOCAL_CALLER, turn)
    return reader


def test_a_turn_whose_request_still_runs_it_is_left_alone(stage: Stage) -> None:
    thinking, worker = Held("A door."), stage.worker("taken over")
    process, turn = paused(stage, thinking)
    stage.token(turn)
    running = process.resume(turn, answer("l"))
    thinking.wait()
    stage.execution(turn).until("Watch", 3)
    assert worker.written() == []
    assert {(answer["next"], answer["seconds"] > 1) for answer in stage.answers} == {("watch", True)}
    thinking.open()
    assert outline(process.drain(running)).endswith("complete")

    assert stage.assert_over(turn, TurnStatus.COMPLETED).turn.output_message.content == "A door."
    assert process.header(turn).lock.fence == 2


def test_a_turn_that_a_worker_runs_is_left_alone_by_the_worker_of_another_execution(stage: Stage) -> None:
    thinking = Held("A door.")
    turn, token = abandoned_after_its_resume(stage)
    runner, other = stage.worker(thinking), stage.worker("taken over")
    read(stage, turn)
    thinking.wait()
    stage.bench.wake(token)
    stage.execution(turn).until("Watch", 2)
    assert other.written() == []
    thinking.open()

    assert stage.assert_over(turn, TurnStatus.COMPLETED).turn.output_message.content == "A door."
    assert [name.removeprefix(turn.turn_id)[:3] for name in stage.bench.names()] == ["", "-2-"]
    assert runner.header(turn).lock.fence == 3


def test_of_two_executions_for_one_turn_at_once_one_takes_it_over(stage: Stage) -> None:
    turn, token = abandoned_after_its_resume(stage)
    workers = [stage.worker("A door."), stage.worker("A door.")]
    both_have_read = threading.Barrier(2, timeout=10)
    for worker in workers:
        worker.store.before(takes_over, both_have_read.wait)
    read(stage, turn)
    stage.bench.wake(token)

    state = stage.assert_over(turn, TurnStatus.COMPLETED)
    assert (kinds(state), state.takeovers) == (ROLLED, 1)
    assert [len(worker.inference.requests) for worker in workers] in ([0, 1], [1, 0])
    assert stage.bench.retry_waits == [], "to come second is no failure"


def test_a_turn_that_pauses_in_a_worker_waits_in_the_execution_that_invoked_it(stage: Stage) -> None:
    process = stage.process(lambda request: process.store.die())
    broadcast = process.start(process.session(client_tools=[client_tool()]))
    process.drain(broadcast)
    turn = broadcast.ref
    stage.clock.advance(LEASE_S)
    stage.worker(CLIENT_CALL)
    client = read(stage, turn, "A door.")
    stage.token(turn)
    assert stage.answers == [{"next": "await", "seconds": AWAIT_S + AFTER_DEADLINE_S, "status": "awaiting_input"}]
    client.assert_whole(turn)
    assert outline(client.drain(client.resume(turn, answer("l")))).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ROLLED
    assert stage.bench.names() == [turn.turn_id]


DEATHS: dict[str, tuple[str, Matches]] = {
    "before it took over": ("before", takes_over),
    "after it took over": ("after", takes_over),
    "after the model answered": ("before", saves_step),
    "after a step was stored": ("after", saves_step),
    "before the end was stored": ("before", completes_turn),
    "after the end was stored": ("after", completes_turn),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_worker_that_dies_is_followed_by_another_after_its_lease_and_no_step_comes_twice(
    stage: Stage, death: str
) -> None:
    moment, matches = DEATHS[death]
    turn = abandoned(stage)
    first, second = stage.worker(answering, answering, tools=DICE), stage.worker(answering, answering, tools=DICE)
    (first.store.before if moment == "before" else first.store.after)(matches, first.store.die)
    read(stage, turn)

    state = stage.assert_over(turn, TurnStatus.COMPLETED)
    assert (kinds(state), state.turn.output_message.content) == (ROLLED, "You rolled 4.")
    assert stage.execution(turn).entered == TAKEN_OVER
    assert stage.bench.retry_waits == [RETRY_AFTER_S]
    keys = {run.idempotency_key for run in (*first.tools.invocations, *second.tools.invocations)}
    assert len(keys) == 1


def test_a_run_that_was_presumed_dead_leaves_no_trace_when_it_continues(stage: Stage) -> None:
    thinking = Held("too late")
    process = stage.process(thinking)
    running = process.start(process.session())
    thinking.wait()
    stage.clock.advance(LEASE_S)
    stage.worker("A door.")
    read(stage, running.ref)
    state = stage.assert_over(running.ref, TurnStatus.COMPLETED)
    thinking.open()

    assert outline(process.drain(running)).endswith("failed:lease_lost")
    assert process.state(running.ref) == state
    assert state.turn.output_message.content == "A door."
    process.assert_whole(running.ref)


def test_a_run_with_little_time_left_continues_in_the_worker_and_no_longer_in_its_process(stage: Stage) -> None:
    thinking, taking_over = Held("too late"), Gate()
    process = stage.process(roll(1), thinking, tools=DICE)
    running = process.start(process.session(toolgroups=["dice"]))
    thinking.wait()
    worker = stage.worker("You rolled 4.", tools=DICE)
    worker.store.before(takes_over, taking_over.pass_through)
    process.turns.hand_off(running.ref)
    events = drained_events(running)
    assert outline(events).endswith("failed:handed_over")
    taking_over.wait()
    thinking.open()
    process.settle()
    assert kinds(process.state(running.ref)) == ROLLED[:2]
    taking_over.open()

    state = stage.assert_over(running.ref, TurnStatus.COMPLETED)
    assert (kinds(state), state.turn.output_message.content) == (ROLLED, "You rolled 4.")
    assert finished_steps(events) == state.turn.steps[:2]
    assert stage.execution(running.ref).entered == TAKEN_OVER
    assert worker.tools.invocations == []


class SlowModel:
    """Calls a tool once in each invocation of a worker, a set number of times; then thinks longer than the time left.

    The next request returns the earlier thought: a process is thawed by its next invocation, in which the
    runs of earlier ones continue, too.
    """

    def __init__(self, stage: Stage, rolls: int) -> None:
        self._stage = stage
        self._rolls = rolls
        self._thoughts: list[Held] = []

    def __call__(self, request: InferenceRequest) -> Any:
        self.thaw()
        rolled = sum(message.role == "tool" for message in request.messages)
        if 0 < rolled == self._rolls:
            return "That is all."
        if rolled < self._rolls and rolled <= len(self._stage.answers):
            return roll(rolled)
        self._thoughts.append(Held("too late"))
        return self._thoughts[-1](request)

    def thaw(self) -> None:
        for thought in self._thoughts:
            thought.open()


def test_a_long_turn_goes_from_worker_to_worker_as_long_as_each_stores_a_step(hasty: Stage) -> None:
    rolls = MAX_TAKEOVERS + 2
    turn = abandoned(hasty)
    worker = hasty.worker(*[SlowModel(hasty, rolls)] * ENOUGH, tools=DICE, time_left_s=A_MOMENT_S)
    read(hasty, turn)

    state = hasty.assert_over(turn, TurnStatus.COMPLETED)
    assert kinds(state) == [*["inference", "tool_execution"] * rolls, "inference"]
    assert state.turn.output_message.content == "That is all."
    *before, last = [outlook["status"] for outlook in hasty.answers]
    assert (set(before), last, len(before) > MAX_TAKEOVERS) == ({"in_progress"}, "completed", True)
    worker.settle()
    assert worker.state(turn) == state
    worker.assert_whole(turn)
    assert hasty.bench.names() == [turn.turn_id], "the machine polls again by itself"


def test_a_turn_that_no_worker_advances_fails_after_so_many_takeovers(
    hasty: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    model = SlowModel(hasty, rolls=0)
    turn = abandoned(hasty)
    worker = hasty.worker(*[model] * ENOUGH, tools=DICE, time_left_s=A_MOMENT_S)
    read(hasty, turn)

    state = hasty.assert_over(turn, TurnStatus.FAILED)
    assert [outlook["status"] for outlook in hasty.answers] == ["in_progress"] * MAX_TAKEOVERS + ["failed"]
    assert (kinds(state), state.failure and state.failure.kind) == ([], "ended")
    (warning,) = [record for record in caplog.records if record.getMessage() == "turn failed: ended"]
    assert (warning.levelname, warning.fields["turn_id"]) == ("WARNING", turn.turn_id)  # type: ignore[attr-defined]
    model.thaw()
    worker.settle()
    assert worker.state(turn) == state
    assert len(worker.inference.requests) == MAX_TAKEOVERS
    worker.assert_whole(turn)


def test_a_worker_that_can_not_store_its_step_is_replaced_when_the_table_is_available_again(stage: Stage) -> None:
    turn = abandoned(stage)
    worker = stage.worker(answering, answering, answering, tools=DICE)

    def throttle() -> None:
        worker.table.is_throttled = True

    def recover(seconds: float) -> None:
        worker.table.is_throttled = False
        stage.clock.advance(seconds)

    worker.store.before(saves_step, throttle)
    stage.bench.before_retry = recover
    read(stage, turn)

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ROLLED
    assert stage.bench.names() == [turn.turn_id]
    assert stage.execution(turn).entered == TAKEN_OVER
    assert stage.bench.retry_waits == [RETRY_AFTER_S]


@pytest.mark.parametrize("what", ["turn", "session"])
def test_a_turn_that_was_deleted_while_it_waited_is_done_with_and_not_brought_back(impatient: Stage, what: str) -> None:
    process, turn = paused(impatient)
    impatient.token(turn)
    keys = [turn_key_of(turn), *([session_key(turn)] if what == "session" else [])]
    process.records.write([Delete(key) for key in keys])

    assert impatient.execution(turn).ended().output["status"] == GONE
    assert impatient.bus_statuses(turn) == [GONE]
    assert [impatient.bench.item(key) for key in keys] == [{}] * len(keys)


def test_a_turn_that_never_was_is_done_with(stage: Stage) -> None:
    unknown = TurnRef(tenant="local", agent_id="a", session_id="s", turn_id=str(uuid4()))
    key = turn_key_of(unknown)
    data = {"turn": unknown.model_dump(), "key": {"pk": key.pk, "sk": key.sk}, "next": "await", "seconds": 60}
    execution = stage.bench.start(unknown.turn_id, {**data, "status": "awaiting_input"})

    assert execution.ended().output["status"] == GONE
    assert stage.bus_statuses(unknown) == [GONE]
    assert stage.bench.item(key) == {}


@pytest.mark.parametrize("state", [LockState.AWAITING, LockState.RUNNING])
def test_a_turn_whose_agent_is_gone_is_done_with_and_fails_no_worker(impatient: Stage, state: LockState) -> None:
    turn = paused(impatient)[1] if state is LockState.AWAITING else abandoned(impatient)
    process = impatient.process()
    process.records.write([Delete(agent_key(turn.tenant, turn.agent_id))])
    impatient.clock.advance(AWAIT_S)
    process.supervisor.watch(turn, process.header(turn).lock)

    ended = impatient.execution(turn).ended()
    assert (ended.status, ended.output and ended.output["status"]) == ("SUCCEEDED", GONE)
    assert impatient.bench.retry_waits == []
    assert process.header(turn).lock.state is state
    process.assert_whole(turn)
