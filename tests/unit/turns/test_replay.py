"""The replay of a stored turn has the events of its run; only a step's deltas come as one.

Covers: engine/steps, services/streams/replay, services/turns/transitions
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.models.scripted import Scripted, ScriptedReply, call, calls
from tests.support.engine.turn_loop import (
    BOTH_GROUPS,
    CLIENT_CALL,
    NOW,
    PRICE,
    RAIN,
    STOCK,
    UNKNOWN,
    UNPARSABLE,
    Engine,
    new_turn,
)
from turnstone.domain.errors import ModelFailed
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import (
    StepProgressed,
    TextDelta,
    TurnAwaitsInput,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    step_completed,
    turn_awaits_input,
    turn_completed,
)
from turnstone.domain.turns.failures import Failure, UnansweredStatus
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.engine.steps import AwaitClientTools
from turnstone.services.streams.replay import replayed
from turnstone.services.turns.transitions import Answered, answered_by_client, ended_unanswered, paused, resumed

LATER = NOW + timedelta(hours=1)
SESSION = Session(agent_id="a1", session_id="s1", session_name="s", started_at=NOW, order="s1")
LONG_PLAIN = ScriptedReply(("It ", "is ", "so."))
OVERHEATED = Failure(kind="model_failed", message="overheated")


@dataclass(frozen=True)
class Lived:
    """The events of a turn from its start on, and the state that is stored."""

    events: tuple[TurnEvent, ...]
    state: TurnState


def lived(*script: Scripted) -> Lived:
    """Return a turn lived until it has its answer or waits for its client."""
    return going_on(Lived((TurnStarted(turn_id="t1"),), new_turn()), *script)


def going_on(earlier: Lived, *script: Scripted) -> Lived:
    engine = Engine(*script, config=BOTH_GROUPS)
    ending = engine.run(earlier.state)
    left = ending.unpublished
    if isinstance(ending, AwaitClientTools):
        state = paused(SESSION, ending.state, ending.output, LATER).turns[0]
        last: TurnEvent = turn_awaits_input(state)
    else:
        state = ending.state.completed(ending.output, NOW)
        last = turn_completed(state)
    return Lived((*earlier.events, *engine.emitted, *left, last), state)


def resumed_by_client(waiting: Lived) -> Lived:
    """Return the turn resumed with its client's answers; its pause is no event of the resumed stream."""
    pending = waiting.state.pending_calls
    responses = [ToolResponse(call_id=c.call_id, tool_name=c.tool_name, content="two") for c in reversed(pending)]
    step = answered_by_client(waiting.state, responses, "client", NOW)
    state = resumed(SESSION, waiting.state, Answered(step, (), "request"), LATER).turns[0]
    return Lived((*waiting.events[:-1], step_completed(step)), state)


def coalesced(events: Iterable[TurnEvent]) -> tuple[TurnEvent, ...]:
    """Return the events with the text of each step in one delta."""
    merged: list[TurnEvent] = []
    for event in events:
        match merged, event:
            case [*_, StepProgressed(delta=TextDelta(text=before))], StepProgressed(delta=TextDelta(text=text)):
                merged[-1] = event.model_copy(update={"delta": TextDelta(text=before + text)})
            case _:
                merged.append(event)
    return tuple(merged)


@pytest.mark.parametrize(
    "script",
    [
        (LONG_PLAIN,),
        ("",),
        (PRICE, LONG_PLAIN),
        (calls(PRICE, STOCK, UNKNOWN, UNPARSABLE, text="Looking."), RAIN, LONG_PLAIN),
        (calls(PRICE, CLIENT_CALL, text="Looking."),),
        (CLIENT_CALL,),
        (ScriptedReply(("so",), calls=(PRICE,), is_cut_off=True),),
    ],
    ids=["plain", "empty", "server tool", "several server tools", "mixed calls", "client tool", "cut off"],
)
def test_a_replay_equals_the_run(script: Sequence[Scripted]) -> None:
    turn = lived(*script)
    assert coalesced(turn.events) == replayed(turn.state)


@pytest.mark.parametrize(
    "pause", [(CLIENT_CALL,), (calls(PRICE, CLIENT_CALL, call("ask", "c9")),)], ids=["client tool", "mixed calls"]
)
def test_the_replay_of_a_resumed_turn_has_no_pause(pause: Sequence[Scripted]) -> None:
    running = resumed_by_client(lived(*pause))
    assert coalesced(running.events) == replayed(running.state)
    ended = going_on(running, PRICE, LONG_PLAIN)
    assert coalesced(ended.events) == replayed(ended.state)
    assert isinstance(replayed(ended.state)[-1], TurnCompleted)


def test_the_replay_of_a_turn_that_waits_again_has_its_last_pause_only() -> None:
    waiting = going_on(resumed_by_client(lived(CLIENT_CALL)), calls(CLIENT_CALL, text="Once more."))
    assert coalesced(waiting.events) == replayed(waiting.state)
    pauses = [index for index, event in enumerate(replayed(waiting.state)) if isinstance(event, TurnAwaitsInput)]
    assert [len(replayed(waiting.state)) - 1] == pauses


def test_the_replay_of_a_running_turn_ends_with_its_last_stored_step() -> None:
    engine = Engine(calls(PRICE, STOCK))
    engine.move(new_turn())
    assert (TurnStarted(turn_id="t1"), *engine.emitted) == replayed(engine.stored)
    engine.move(engine.stored)
    assert (TurnStarted(turn_id="t1"), *engine.emitted) == replayed(engine.stored)
    assert (TurnStarted(turn_id="t1"),) == replayed(new_turn())


def test_the_replay_of_a_failed_turn_has_its_failure_instead_of_the_failed_step() -> None:
    engine = Engine(PRICE, ScriptedReply(("half an ans",), error=ModelFailed("overheated")))
    with pytest.raises(ModelFailed):
        engine.run(new_turn())
    failed = engine.stored.ended_unanswered(TurnStatus.FAILED, OVERHEATED, NOW)
    finished = {step.step_id for step in failed.turn.steps}
    emitted = [event for event in engine.emitted if event.step_id in finished]
    failure = TurnFailed(turn_id="t1", failure=OVERHEATED, status="failed", state=failed)
    assert (TurnStarted(turn_id="t1"), *emitted, failure) == replayed(failed)


@pytest.mark.parametrize("status", [TurnStatus.EXPIRED, TurnStatus.CANCELLED])
def test_the_replay_of_a_turn_ended_while_it_waited_has_its_end_instead_of_the_pause(status: TurnStatus) -> None:
    waiting = lived(CLIENT_CALL)
    ended = ended_unanswered(waiting.state, status, NOW)
    assert ended.failure is not None
    assert (
        *coalesced(waiting.events[:-1]),
        TurnFailed(turn_id="t1", failure=ended.failure, status=ended.status.value, state=ended),
    ) == replayed(ended)


def test_a_turn_whose_steps_and_traces_do_not_match_is_not_replayed() -> None:
    whole = lived(LONG_PLAIN).state
    with pytest.raises(ValueError, match="shorter"):
        replayed(whole.model_copy(update={"traces": whole.traces[:-1]}))


def test_a_turn_that_ended_without_a_reason_is_replayed_as_failed_all_the_same() -> None:
    failed = new_turn().model_copy(update={"status": TurnStatus.FAILED})
    failure = Failure(kind="ended", message="turn 't1' is failed")
    end = TurnFailed(turn_id="t1", failure=failure, status="failed", state=failed)
    assert (TurnStarted(turn_id="t1"), end) == replayed(failed)


TEXTS = st.lists(st.sampled_from(["a", "b ", "日"]), max_size=3).map(tuple)
CALL_LISTS = st.lists(
    st.sampled_from([CLIENT_CALL, PRICE, STOCK, RAIN, UNKNOWN, UNPARSABLE]),
    max_size=4,
    unique_by=lambda one: one.call_id,
)
REPLIES = st.builds(
    ScriptedReply, texts=TEXTS, calls=CALL_LISTS.map(tuple), is_cut_off=st.sampled_from([False, False, False, True])
)


@settings(deadline=None, max_examples=40)
@given(st.lists(REPLIES, min_size=9, max_size=9))
def test_any_replay_equals_the_run(replies: list[ScriptedReply]) -> None:
    script = [*replies, LONG_PLAIN]
    turn = lived(*script)
    assert coalesced(turn.events) == replayed(turn.state)
    while turn.state.status is TurnStatus.AWAITING_INPUT:
        turn = going_on(resumed_by_client(turn), *script[turn.state.inference_count :])
        assert coalesced(turn.events) == replayed(turn.state)
    assert turn.state.inference_count <= BOTH_GROUPS.max_infer_iters


@pytest.mark.parametrize("script", [(PRICE, LONG_PLAIN), (CLIENT_CALL,)], ids=["answered", "waits for its client"])
def test_the_last_event_carries_the_state_beside_its_json(script: Sequence[Scripted]) -> None:
    state = lived(*script).state
    last = replayed(state)[-1]
    assert isinstance(last, TurnCompleted | TurnAwaitsInput)
    assert last.state is state
    assert last.turn is state.turn
    assert set(last.model_dump()) == {"event_type", "turn"}
    assert set(json.loads(last.model_dump_json())) == {"event_type", "turn"}


def test_a_subscriber_of_a_waiting_turn_gets_no_token_of_the_supervisor() -> None:
    waiting = lived(CLIENT_CALL).state
    stored = waiting.model_copy(update={"token": "wakes the supervisor"})
    last = replayed(stored)[-1]
    assert isinstance(last, TurnAwaitsInput)
    assert last.state == waiting
    assert stored.token == "wakes the supervisor"


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.EXPIRED, TurnStatus.CANCELLED])
def test_the_end_of_a_turn_without_an_answer_carries_the_state(status: UnansweredStatus) -> None:
    state = new_turn().ended_unanswered(status, OVERHEATED, NOW)
    last = replayed(state)[-1]
    assert isinstance(last, TurnFailed)
    assert last.state is state
    assert "state" not in last.model_dump()
    assert replayed(state.model_copy(update={"is_lost": True, "failure": None}))[-1].state is not None  # type: ignore[union-attr]
