"""A turn that waits for its client and its state machine stays one turn, in any order of their arrivals.

Covers: functions/turn_supervisor, edge/worker, services/turns/supervision, services/turns/recovery
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.turn_supervisor import run_turn
from tests.benchmarks.scale import STATES_OF_A_PAUSE
from tests.fakes.models.scripted import Scripted, call
from tests.support.aws.aws_events import Context
from tests.support.aws.state_machine import BUCKET, TABLE, Bench
from tests.support.aws.supervised import Process, Stage, kinds, refuse_worker_call, staged, until
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Gate,
    Held,
    ProcessDied,
    answer,
    attempt,
    client_tool,
    contents,
    eventually,
    outline,
    pauses_turn,
    puts_turn,
    resumes_turn,
    together,
)
from turnstone.bootstrap.places.aws import build_lambda_core
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import TurnNotAwaiting
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.turns.supervision import AFTER_DEADLINE_S
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.http.errors import error_reply
from turnstone.settings.config import LambdaSettings, load_settings
from turnstone.store.layout.keys import turn_key_of

CLIENT_CALL = call("look", "c1")
SECOND_CALL = call("look", "c2")
ANSWERED = ["inference", "tool_execution", "inference"]
BEHIND_S = 10
PAUSE = ["AwaitClient", "Resumed", "Watch", "Attend", "Route"]
expires_turn = puts_turn(TurnStatus.EXPIRED)


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
def slow_client(bench: Bench) -> Iterator[Stage]:
    """A stage whose machine waits for a client for three seconds."""
    yield from staged(bench, client_waits_s=3)


def paused(stage: Stage, *more: Scripted, **settings: Any) -> tuple[Process, TurnRef]:
    process = stage.process(CLIENT_CALL, *more, **settings)
    return process, process.paused(process.session(client_tools=[client_tool()]))


def resumed(process: Process, turn: TurnRef, call_id: str = "c1") -> str:
    return outline(process.drain(process.resume(turn, answer(call_id))))


def assert_refused_as_expired(process: Process, turn: TurnRef) -> None:
    with pytest.raises(TurnNotAwaiting) as refused:
        process.resume(turn, answer("c1"))
    assert (refused.value.status, error_reply(refused.value).status) == ("expired", 409)


def test_a_resumed_turn_is_watched_and_its_end_is_published_once(stage: Stage) -> None:
    process, turn = paused(stage, "A door.")
    stage.token(turn)
    assert resumed(process, turn).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert stage.bench.names() == [turn.turn_id]
    assert stage.first_seconds(turn) == AWAIT_S + AFTER_DEADLINE_S
    assert stage.execution(turn).entered == ["Route", *PAUSE, "Notify", "Ended"] == [*STATES_OF_A_PAUSE]


def test_two_pauses_of_a_turn_are_one_execution_under_two_tokens(stage: Stage) -> None:
    thinking = Held(SECOND_CALL)
    process, turn = paused(stage, thinking, "A door.")
    first = stage.token(turn)
    running = process.resume(turn, answer("c1"))
    thinking.wait()
    assert "token" not in stage.bench.item(turn_key_of(turn)), "a token is of one pause only"
    thinking.open()
    assert outline(process.drain(running)).endswith("awaiting")
    stage.token(turn, other_than=first)
    assert resumed(process, turn, "c2").endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == [*ANSWERED, *ANSWERED[1:]]
    assert stage.bench.names() == [turn.turn_id]
    assert stage.execution(turn).entered == ["Route", *PAUSE, *PAUSE, "Notify", "Ended"]


def test_a_completed_turn_that_is_opened_again_and_pauses_is_watched_again(stage: Stage) -> None:
    """The execution of its first pause has seen its end by then."""
    process, turn = paused(stage, "look: the door", SECOND_CALL, "A door.", await_seconds=3)
    first = stage.token(turn)
    assert resumed(process, turn).endswith("complete")
    stage.assert_over(turn, TurnStatus.COMPLETED)
    assert stage.bench.names() == [turn.turn_id]
    assert resumed(process, turn, "read").endswith("awaiting")
    stage.token(turn, other_than=first)
    assert stage.bench.names() == [turn.turn_id, f"{turn.turn_id}-again-1"]
    eventually(lambda: process.state(turn).status is TurnStatus.EXPIRED)
    process.assert_whole(turn)


def test_a_turn_whose_client_stays_away_expires_in_one_write_and_the_next_turn_runs(stage: Stage) -> None:
    worker = stage.worker()
    process, turn = paused(stage, "hello", await_seconds=1)

    assert kinds(stage.assert_over(turn, TurnStatus.EXPIRED)) == ["inference"]
    assert stage.execution(turn).entered == ["Route", "AwaitClient", "Attend", "Route", "Notify", "Ended"]
    assert worker.written() == [{"header", "turn", "ctx", "usage"}]
    assert_refused_as_expired(process, turn)
    assert outline(process.whole_turn(turn.session, "hi")).endswith("complete")
    assert "Not executed: no answer came before the deadline." in contents(process.inference.requests[-1].messages)
    process.assert_whole(turn)


def test_a_resume_after_the_deadline_is_refused_before_the_machine_polls(impatient: Stage) -> None:
    process, turn = paused(impatient)
    impatient.token(turn)
    impatient.clock.advance(AWAIT_S)
    assert_refused_as_expired(process, turn)
    assert process.state(turn).status is TurnStatus.EXPIRED

    assert kinds(impatient.assert_over(turn, TurnStatus.EXPIRED)) == ["inference"]


def test_a_machine_that_polls_before_the_deadline_leaves_the_turn_to_its_client(impatient: Stage) -> None:
    worker = impatient.worker()
    process, turn = paused(impatient, "A door.")
    impatient.execution(turn).until("AwaitClient", 2)
    assert worker.written() == []
    assert impatient.answers[0]["next"] == "await"
    assert resumed(process, turn).endswith("complete")

    assert kinds(impatient.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED


def test_a_turn_resumed_before_its_expiry_is_written_continues(impatient: Stage) -> None:
    """The process that resumes it has a clock that is a little behind."""
    resumes: list[str] = []
    _, turn = paused(impatient)
    late, worker = impatient.process("A door.", behind_s=BEHIND_S), impatient.worker()
    worker.store.before(expires_turn, lambda: resumes.append(resumed(late, turn)))
    impatient.clock.advance(AWAIT_S)

    assert kinds(impatient.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert [outline.endswith("complete") for outline in resumes] == [True]
    assert worker.written() == [{"header", "turn", "ctx", "usage"}], "its only try, refused"
    assert impatient.bench.retry_waits == [], "to come second is no failure"


def test_a_resume_whose_turn_expires_before_its_write_is_refused_and_leaves_no_trace(impatient: Stage) -> None:
    process, turn = paused(impatient)
    late = impatient.process(behind_s=BEHIND_S)
    late.store.before(resumes_turn, lambda: until(turn, process, lambda state: state.status.is_terminal))
    impatient.clock.advance(AWAIT_S)
    assert_refused_as_expired(late, turn)

    assert kinds(impatient.assert_over(turn, TurnStatus.EXPIRED)) == ["inference"]
    assert late.inference.requests == []


@pytest.mark.parametrize("round_number", range(2))
def test_of_an_expiry_and_a_resume_at_once_one_wins(impatient: Stage, round_number: int) -> None:
    _, turn = paused(impatient)
    late, worker = impatient.process("A door.", behind_s=BEHIND_S), impatient.worker()
    both_have_read = threading.Barrier(2, timeout=10)
    late.store.before(resumes_turn, both_have_read.wait)
    worker.store.before(expires_turn, both_have_read.wait)
    impatient.clock.advance(AWAIT_S)
    (outcome,) = together(lambda: resumed(late, turn))
    is_resumed = not isinstance(outcome, TurnNotAwaiting)
    assert outcome.endswith("complete") if is_resumed else outcome.status == "expired"

    state = impatient.assert_over(turn, TurnStatus.COMPLETED if is_resumed else TurnStatus.EXPIRED)
    assert kinds(state) == (ANSWERED if is_resumed else ["inference"])


def test_a_turn_resumed_before_the_machine_stored_its_token_is_not_disturbed_by_it(stage: Stage) -> None:
    token, thinking, worker = Gate(), Held("A door."), stage.worker()
    stage.bench.before_token = token.pass_through
    process, turn = paused(stage, thinking)
    token.wait()
    running = process.resume(turn, answer("c1"))
    thinking.wait()
    token.open()
    stage.execution(turn).until("Watch")
    thinking.open()
    assert outline(process.drain(running)).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert worker.written() == []
    watched = ["Watch", "Attend", "Route"]
    assert stage.execution(turn).entered == [
        "Route", "AwaitClient", "Attend", "Route", *watched, "Notify", "Ended",
    ]  # fmt: skip


def test_a_resume_that_read_the_turn_before_its_token_was_stored_reads_again_and_wakes_the_machine(
    stage: Stage,
) -> None:
    token = Gate()
    stage.bench.before_token = token.pass_through
    process, turn = paused(stage, "A door.")

    def let_it_be_stored() -> None:
        token.open()
        stage.token(turn)

    process.store.before(resumes_turn, let_it_be_stored)
    assert resumed(process, turn).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert sum(map(resumes_turn, process.store.calls)) == 2
    assert stage.execution(turn).entered == ["Route", *PAUSE, "Notify", "Ended"]


def test_a_wake_up_that_comes_only_after_the_next_pause_leaves_the_turn_waiting(stage: Stage) -> None:
    process, turn = paused(stage, SECOND_CALL, "A door.")
    first, wake_up = stage.token(turn), Gate()
    process.machine.before_wake = wake_up.pass_through
    resuming = stage.meanwhile(lambda: process.resume(turn, answer("c1")))
    wake_up.wait()
    until(turn, process, lambda state: [pending.call_id for pending in state.pending_calls] == ["c2"])
    wake_up.open()
    assert outline(process.drain(resuming.result())).endswith("awaiting")
    stage.token(turn, other_than=first)
    assert process.state(turn).status is TurnStatus.AWAITING_INPUT
    process.assert_whole(turn)
    assert resumed(process, turn, "c2").endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == [*ANSWERED, *ANSWERED[1:]]
    assert stage.bench.names() == [turn.turn_id]


def test_a_token_of_an_older_pause_sent_again_has_no_effect(stage: Stage) -> None:
    process, turn = paused(stage, SECOND_CALL, "A door.")
    first = stage.token(turn)
    assert resumed(process, turn).endswith("awaiting")
    process.supervisor.wake(first)
    stage.token(turn, other_than=first)
    before = stage.bench.item(turn_key_of(turn))
    process.supervisor.wake(first)
    with pytest.raises(ClientError, match="TaskTimedOut"):
        stage.bench.wake(first)
    assert stage.execution(turn).entered[-1] == "AwaitClient"
    assert before == stage.bench.item(turn_key_of(turn))
    assert resumed(process, turn, "c2").endswith("complete")

    stage.assert_over(turn, TurnStatus.COMPLETED)


def test_a_pause_whose_machine_can_not_be_started_stands_and_its_resume_works(stage: Stage) -> None:
    process = stage.process(CLIENT_CALL, "A door.")
    process.machine.is_cut = True
    turn = process.paused(process.session(client_tools=[client_tool()]))
    process.assert_whole(turn)
    process.machine.is_cut = False
    assert resumed(process, turn).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert stage.bench.names() == []


@pytest.mark.parametrize("what", ["turn", "session"])
def test_a_reader_after_the_deadline_starts_the_machine_that_was_not_started(stage: Stage, what: str) -> None:
    process = stage.process(CLIENT_CALL)
    process.machine.is_cut = True
    turn = process.paused(process.session(client_tools=[client_tool()]))
    process.machine.is_cut = False

    def read() -> object:
        return (
            process.reader.read(LOCAL_CALLER, turn)
            if what == "turn"
            else process.core.sessions.read(LOCAL_CALLER, turn.session, None)
        )

    read()
    assert stage.bench.names() == []
    stage.clock.advance(AWAIT_S)
    read()

    assert stage.execution(turn).ended().status == "SUCCEEDED"
    assert kinds(stage.assert_over(turn, TurnStatus.EXPIRED)) == ["inference"]


def test_a_read_succeeds_when_the_machine_can_not_be_started_by_it_either(stage: Stage) -> None:
    process, turn = paused(stage)
    stage.clock.advance(AWAIT_S)
    process.machine.is_cut = True
    assert process.reader.read(LOCAL_CALLER, turn).state.status is TurnStatus.AWAITING_INPUT


def test_the_machine_of_a_superseded_turn_is_woken_and_publishes_its_cancellation(stage: Stage) -> None:
    process, turn = paused(stage, "hello")
    stage.token(turn)
    assert outline(process.whole_turn(turn.session, "never mind")).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.CANCELLED)) == ["inference"]
    assert stage.execution(turn).entered == ["Route", *PAUSE, "Notify", "Ended"]


def test_a_resume_that_died_before_it_woke_the_machine_is_continued_after_a_read(slow_client: Stage) -> None:
    stage = slow_client
    process, turn = paused(stage)
    stage.token(turn)
    process.store.after(resumes_turn, process.store.die)
    with pytest.raises(ProcessDied):
        process.resume(turn, answer("c1"))
    stage.worker("A door.")
    reader = stage.process()
    assert reader.reader.read(LOCAL_CALLER, turn).state.status is TurnStatus.IN_PROGRESS
    assert stage.bench.names() == [turn.turn_id], "its lease may still be renewed"
    stage.clock.advance(LEASE_S)
    for _ in range(2):
        reader.reader.read(LOCAL_CALLER, turn)
    assert stage.execution(turn, fence=2).ended().status == "SUCCEEDED"
    assert reader.state(turn).status is TurnStatus.COMPLETED

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert [name.removeprefix(turn.turn_id)[:3] for name in stage.bench.names()] == ["", "-2-"]
    assert stage.execution(turn).entered == ["Route", "AwaitClient", "Attend", "Route", "Notify", "Ended"]


def test_a_turn_whose_token_can_not_be_stored_keeps_waiting_for_its_client(stage: Stage) -> None:
    stage.bench.refusals[:] = ["AccessDeniedException"] * 9
    worker = stage.worker()
    process, turn = paused(stage, "A door.")
    stage.token(turn)
    assert worker.written() == []
    assert resumed(process, turn).endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == ANSWERED
    assert stage.execution(turn).entered == ["Route", "AwaitClient", "Attend", "Route", *PAUSE, "Notify", "Ended"]


def test_a_pause_whose_answer_was_lost_counts_although_the_machine_stored_its_token_since(stage: Stage) -> None:
    process, turn = paused(stage, SECOND_CALL, "A door.")
    first = stage.token(turn)
    stored: list[str] = []

    def lose_answer() -> None:
        process.table.lose_answer(lambda: stored.append(stage.token(turn, other_than=first)))

    process.store.before(pauses_turn, lose_answer)
    assert resumed(process, turn).endswith("awaiting")
    assert len(stored) == 1
    assert process.header(turn).lock.state is LockState.AWAITING
    process.assert_whole(turn)
    assert resumed(process, turn, "c2").endswith("complete")

    assert kinds(stage.assert_over(turn, TurnStatus.COMPLETED)) == [*ANSWERED, *ANSWERED[1:]]


def test_the_services_and_the_worker_as_deployed_run_a_turn_to_its_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"TABLE": TABLE, "BUCKET": BUCKET, "STATE_MACHINE_ARN": stage.bench.state_machine_arn}
    given["JOBS_QUEUE_URL"] = "https://sqs.eu-central-1.amazonaws.com/123456789012/none"  # nothing is deleted here
    for name, value in {**given, "MODEL_URL": "offline", "AWAIT_SECONDS": "1"}.items():
        monkeypatch.setenv(f"TURNSTONE_{name}", value)
    monkeypatch.setattr(run_turn.handler, "_core", None)
    stage.bench.worker = lambda payload: run_turn.handler(payload, Context())
    core = build_lambda_core(load_settings(LambdaSettings)).load()
    config = AgentConfig(model="offline", instructions="", client_tools=(client_tool(),))
    agent_id = core.agents.create(LOCAL_CALLER, config, attempt())
    session_id = core.sessions.create(LOCAL_CALLER, agent_id, "a session", attempt())
    ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session_id)
    waiting = core.turns.start(LOCAL_CALLER, ref, NewTurn(messages=(UserMessage(content="look()"),)), attempt())
    assert outline(waiting.wait()).endswith("awaiting")
    core.executor.wait(10)

    stage.assert_over(waiting.ref, TurnStatus.EXPIRED)
    core.leases.close()
    run_turn.handler._core.leases.close()
