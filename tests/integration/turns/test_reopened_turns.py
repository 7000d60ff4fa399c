"""Only a completed turn whose client read calls out of its text continues with their answers. On either store.

Covers: services/turns/turns, services/turns/transitions, services/streams/replay
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls, cut_off
from tests.fakes.shields import clean, registered, stops
from tests.support.engine.either_store import Make, made_over_sqlite
from tests.support.engine.harness import (
    LEASE_S,
    Held,
    Server,
    answer,
    attempt,
    client_tool,
    contents,
    drained_events,
    finished_steps,
    opens_turn,
    outline,
    reads,
    resumes_turn,
    together,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import (
    CallsMismatch,
    DayLimitReached,
    InvalidRequest,
    NotFound,
    TurnLimitReached,
    TurnNotAwaiting,
    TurnRunning,
    TurnTimeReached,
)
from turnstone.domain.messages.messages import CompletionMessage, ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turns import NewTurn, ToolExecutionStep, TurnStatus
from turnstone.services.streams.replay import replayed
from turnstone.store.usage.usage import UsageStore

PLAIN = "S:infer P C:infer"
RESUMED = f"C:tool {PLAIN} complete"


def completed(server: Server, text: str = "hello", **config: Any) -> TurnRef:
    """Return a turn of a new session that had its answer."""
    ref = server.session(**config)
    assert outline(server.whole_turn(ref, text)) == f"start {PLAIN} complete"
    return ref.turn(server.states(ref)[-1].order)


def resumed(server: Server, turn: TurnRef, *responses: ToolResponse, **more: Any) -> str:
    return outline(server.drain(server.resume(turn, *(responses or (answer("1"),)), **more)))


def test_a_completed_turn_continues_with_the_calls_its_client_read_out_of_its_text(make: Make) -> None:
    server = make("look: 1", "look: 2", "done", "fine")
    turn = completed(server)
    assert resumed(server, turn, answer("1", "a door")) == RESUMED
    events = server.drain(server.resume(turn, answer("1", "a wall"), answer("2", "a window")))
    assert outline(events) == RESUMED
    state = server.state(turn)
    assert [step.step_type for step in state.turn.steps] == ["inference", *["tool_execution", "inference"] * 2]
    assert (turn_in(events), state.status, state.turn.output_message.content) == (
        state.turn,
        TurnStatus.COMPLETED,
        "done",
    )
    tools = [step for step in state.turn.steps if isinstance(step, ToolExecutionStep)]
    assert [step.tool_calls for step in tools] == [(), ()]
    assert tools[1].tool_responses == (answer("1", "a wall"), answer("2", "a window"))
    assert replayed(state)[-len(events) :] == events
    server.whole_turn(turn, "thanks")
    shown = server.inference.requests[-1].messages
    assert contents(shown) == ["hello", "look: 1", "a door", "look: 2", "a wall", "a window", "done", "thanks"]
    assert_calls_are_answered(shown)
    assert shown[:-2] == server.inference.requests[2].messages
    server.assert_whole(turn)


def assert_calls_are_answered(messages: Any) -> None:
    """Assert that each answer of a tool follows a call of its id, as every provider requires."""
    open_ids: set[str] = set()
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            open_ids.remove(message.call_id)
        else:
            assert open_ids == set()
        if isinstance(message, CompletionMessage):
            open_ids = {made.call_id for made in message.tool_calls}


def test_names_and_ids_that_no_provider_takes_spoil_no_session(make: Make) -> None:
    server = make("look", "done")
    turn = completed(server)
    odd = [answer("x" * 100, "a", "my tool!"), answer("", "b", ""), answer("é", "c", "builtin::clock")]
    assert resumed(server, turn, *odd) == RESUMED
    messages = server.inference.requests[-1].messages
    assert_calls_are_answered(messages)
    (answer_message,) = (message for message in messages if isinstance(message, CompletionMessage))
    assert [made.tool_name for made in answer_message.tool_calls] == ["my_tool_", "tool", "builtin__clock"]
    assert all(0 < len(made.call_id) <= 40 and made.call_id.isascii() for made in answer_message.tool_calls)
    stored = server.state(turn).turn.steps[1]
    assert isinstance(stored, ToolExecutionStep)
    assert list(stored.tool_responses) == odd


def test_an_answer_without_a_word_can_be_followed_by_answers_of_tools(make: Make) -> None:
    server = make("", "done")
    ref = server.session()
    turn = server.start(ref).ref
    server.settle()
    assert resumed(server, turn) == RESUMED
    assert_calls_are_answered(server.inference.requests[-1].messages)


REFUSED: dict[str, Callable[[Server, SessionRef], object]] = {
    "only the newest turn of a session can": lambda server, ref: server.whole_turn(ref, "and now?"),
    "a later turn runs": lambda server, ref: server.start(ref, "wait"),
}


@pytest.mark.parametrize("after", list(REFUSED))
def test_only_the_newest_turn_of_a_session_continues(make: Make, after: str) -> None:
    thinking = Held("late")
    server = make("first", "second" if after == "only the newest turn of a session can" else thinking)
    turn = completed(server)
    REFUSED[after](server, turn)
    with pytest.raises(TurnNotAwaiting, match="only the newest turn of a session can"):
        server.resume(turn, answer("1"))
    thinking.open()
    server.settle()
    server.assert_whole(turn)


@pytest.mark.parametrize(
    ("script", "config", "why"),
    [
        ((cut_off("so"),), {}, "cut off by the token limit"),
        ((call("look", "c"),), {"client_tools": [client_tool()], "max_infer_iters": 1}, "with calls unanswered"),
        (("a bomb",), {"output_shields": ["a"]}, "a safety check stopped it"),
        (("never",), {"input_shields": ["b"]}, "a safety check stopped it"),
    ],
    ids=["cut off", "with calls", "stopped answer", "stopped question"],
)
def test_a_turn_that_ended_otherwise_does_not_continue(make: Make, script: Any, config: Any, why: str) -> None:
    server = make(*script, "never")
    server.shields.script = {"a": stops("bomb"), "b": stops("hello")}
    for name in server.shields.script:
        server.core.shields.register(LOCAL_CALLER, registered(name), attempt())
    ref = server.session(**config)
    turn = server.start(ref).ref
    server.settle()
    before = server.state(turn)
    with pytest.raises(TurnNotAwaiting, match=why) as refused:
        server.resume(turn, answer("c"))
    assert (refused.value.status, before.status) == ("completed", TurnStatus.COMPLETED)
    assert server.state(turn) == before


def test_a_response_does_not_continue(make: Make) -> None:
    server = make("look", "never")
    ref = server.session()
    new = NewTurn(messages=(UserMessage(content="hello"),), origin="responses")
    turn = server.turns.start(LOCAL_CALLER, ref, new, attempt()).ref
    server.settle()
    with pytest.raises(TurnNotAwaiting, match="the next response continues"):
        server.resume(turn, answer("1"))


@pytest.mark.parametrize(("responses", "why"), [((), "no call"), ((answer("1"), answer("1")), "twice")])
def test_no_answers_and_two_to_one_call_are_refused(make: Make, responses: Any, why: str) -> None:
    server = make("look", "never")
    turn = completed(server)
    with pytest.raises(CallsMismatch, match=why):
        server.resume(turn, *responses)
    assert server.state(turn).status is TurnStatus.COMPLETED
    server.assert_whole(turn)


def test_a_resume_whose_shield_is_gone_is_refused_before_the_turn_is_opened(make: Make) -> None:
    server = make("look", "never")
    server.shields.script = {"a": clean}
    server.core.shields.register(LOCAL_CALLER, registered("a"), attempt())
    ref = server.session(input_shields=["a"])
    turn = server.start(ref).ref
    server.settle()
    server.core.shields.unregister(LOCAL_CALLER, "a")
    with pytest.raises(InvalidRequest, match="there is no shield"):
        server.resume(turn, answer("1"))
    assert server.state(turn).status is TurnStatus.COMPLETED


def test_the_servers_bound_of_inferences_and_the_tokens_of_the_day_hold_over_all_ends(make: Make) -> None:
    server = make(*["look"] * 11, max_infer_iters=10)
    turn = completed(server)
    for _ in range(9):
        assert resumed(server, turn) == RESUMED
    with pytest.raises(TurnNotAwaiting, match="10 inferences"):
        server.resume(turn, answer("1"))
    poor = make("look", "never", max_day_tokens=1)
    poor.clock.advance(11)  # type: ignore[attr-defined]
    with pytest.raises(DayLimitReached):
        poor.resume(completed(server), answer("1"))


def test_a_turn_that_used_up_its_budget_keeps_its_answer(make: Make) -> None:
    server = make("look", "look", max_turn_tokens=1)
    turn = completed(server)
    with pytest.raises(TurnLimitReached):
        server.resume(turn, answer("1"))
    assert server.state(turn).status is TurnStatus.COMPLETED


def test_a_turn_that_ran_for_as_long_as_it_may_keeps_its_answer(make: Make) -> None:
    servers: list[Server] = []

    def answered_late(_: object) -> str:
        servers[0].clock.advance(40)  # type: ignore[attr-defined] # those of tests can be put forward
        return "look"

    servers.append(make(answered_late, answered_late, "never", max_turn_seconds=60))
    turn = completed(servers[0])
    assert resumed(servers[0], turn) == RESUMED
    with pytest.raises(TurnTimeReached):
        servers[0].resume(turn, answer("1"))
    assert servers[0].state(turn).status is TurnStatus.COMPLETED


def test_each_inference_is_charged_once_and_the_turn_reports_its_whole_usage(make: Make) -> None:
    server = make("look", "look", "done")
    turn = completed(server)
    per_inference = server.state(turn).spent["scripted"]
    resumed(server, turn)
    server.assert_whole(turn)
    resumed(server, turn)
    spent = server.state(turn).spent["scripted"]
    assert (spent.inferences, spent.total_tokens) == (3, 3 * per_inference.total_tokens)
    header = server.header(turn).spent
    assert header is not None
    assert header.by_model == {"scripted": spent}
    (charged,) = UsageStore(server.records).of_session(turn, [header.day])
    assert charged.by_model == {"scripted": spent}


@pytest.mark.parametrize("other", ["here", "elsewhere"])
def test_of_two_resumes_at_once_one_continues(make: Make, other: str) -> None:
    thinking = Held("done")
    server = make("look", thinking, thinking)
    rival = server if other == "here" else make(thinking, thinking)
    turn = completed(server)
    results = together(lambda: server.resume(turn, answer("1")), lambda: rival.resume(turn, answer("2")))
    assert sorted(type(result).__name__ for result in results) == ["TurnBroadcast", "TurnNotAwaiting"]
    thinking.open()
    server.settle()
    rival.settle()
    assert server.state(turn).status is TurnStatus.COMPLETED
    assert len(server.state(turn).turn.steps) == 3
    server.assert_whole(turn)


def test_a_new_turn_that_comes_before_the_resumes_write_wins(make: Make) -> None:
    server, late = make("look", "second"), make("never")
    turn = completed(server)
    late.store.before(resumes_turn, lambda: server.whole_turn(turn, "and now?"))
    with pytest.raises(TurnNotAwaiting, match="only the newest turn"):
        late.resume(turn, answer("1"))
    assert [state.status for state in server.states(turn)] == [TurnStatus.COMPLETED] * 2
    server.assert_whole(turn)


def test_a_resume_that_comes_before_a_new_turns_write_wins(make: Make) -> None:
    thinking = Held("done")
    server, late = make("look", thinking), make("never")
    turn = completed(server)
    late.store.before(opens_turn, lambda: server.resume(turn, answer("1")))
    with pytest.raises(TurnRunning):
        late.start(turn, "and now?")
    thinking.open()
    server.settle()
    assert [len(state.turn.steps) for state in server.states(turn)] == [3]
    server.assert_whole(turn)


def test_a_resume_whose_session_is_deleted_before_its_write_finds_it_gone(make: Make) -> None:
    server, late = make("look"), make("never")
    turn = completed(server)
    late.store.before(resumes_turn, lambda: server.core.deleting.delete_session(LOCAL_CALLER, turn))
    with pytest.raises(NotFound):
        late.resume(turn, answer("1"))


@pytest.mark.parametrize("by", [{"key": "k"}, {"is_retry": True}], ids=["its key", "its count of retries"])
def test_a_repeated_resume_receives_the_events_of_the_first(make: Make, by: Any) -> None:
    server = make("look", "done", "never")
    turn = completed(server)
    first = server.drain(server.resume(turn, answer("1"), by=attempt("same", **{**by, "is_retry": False})))
    again = drained_events(server.resume(turn, answer("1"), by=attempt("same", **by)))
    assert outline(first) == RESUMED
    assert finished_steps(again) == finished_steps(first)
    assert len(server.inference.requests) == 2


def test_the_first_runs_clean_up_leaves_the_steps_of_the_second(tmp_path: Path) -> None:
    """The first run removes its turn's steps when another run may have stored more. Only SQLite does so."""
    thinking = Held("done")
    (server,) = islice(made := made_over_sqlite(tmp_path), 1)
    first, other = server(call("roll", "r"), "look"), server(call("roll", "s"), thinking)
    ref = first.session(toolgroups=["dice"])

    def resume() -> None:
        other.resume(newest(first, ref), answer("1"))
        thinking.wait()

    first.store.before(reads("step:"), resume)
    first.whole_turn(ref)
    turn = newest(first, ref)
    assert len(first.state(turn).turn.steps) == 6
    thinking.open()
    other.settle()
    state = first.state(turn)
    assert (state.status, len(state.turn.steps)) == (TurnStatus.COMPLETED, 7)
    first.assert_whole(turn)
    assert list(made) == []


def newest(server: Server, ref: SessionRef) -> TurnRef:
    return ref.turn(server.states(ref)[-1].order)


def test_a_turn_that_was_opened_again_is_taken_over_and_can_pause_fail_and_be_cancelled(make: Make) -> None:
    thinking = Held("never")
    server, heir = make("look", thinking), make(call("look", "n"), "done", "and so on")
    turn = completed(server, client_tools=[client_tool()])
    server.resume(turn, answer("1"))
    thinking.wait()
    server.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.leases.close()
    outlook = heir.core.recovery.reconcile(turn)
    if outlook.run is not None:
        heir.drain(outlook.run)
    thinking.open()
    server.settle()
    state = heir.state(turn)
    lock = heir.header(turn).lock
    assert (state.status, lock.state, lock.reopened) == (TurnStatus.AWAITING_INPUT, LockState.AWAITING, 1)
    assert resumed(heir, turn, answer("n")) == RESUMED
    assert heir.header(turn).lock.reopened == 0
    assert resumed(heir, turn) == RESUMED
    assert len(heir.state(turn).turn.steps) == 7
    heir.assert_whole(turn)


def test_cancelling_a_turn_that_was_opened_again_keeps_its_steps_and_its_position_in_the_log(make: Make) -> None:
    thinking = Held("never")
    server = make("look", thinking, "fine")
    turn = completed(server)
    running = server.resume(turn, answer("1", "a door"))
    thinking.wait()
    server.assert_whole(turn)
    server.core.cancelling.cancel(LOCAL_CALLER, turn, attempt())
    thinking.open()
    server.drain(running)
    server.assert_whole(turn)
    with pytest.raises(TurnNotAwaiting, match="cancelled"):
        server.resume(turn, answer("1"))
    server.whole_turn(turn, "again")
    assert contents(server.inference.requests[-1].messages) == ["hello", "look", "a door", "again"]


def test_an_earlier_turn_is_in_the_history_once_while_and_after_a_turn_is_opened_again(make: Make) -> None:
    server = make("one", "two", "two more", "three")
    ref = server.session()
    server.whole_turn(ref, "first")
    server.whole_turn(ref, "second")
    turn = ref.turn(server.states(ref)[-1].order)
    assert resumed(server, turn, answer("1", "seen")) == RESUMED
    assert contents(server.inference.requests[-1].messages) == ["first", "one", "second", "two", "seen"]
    server.whole_turn(ref, "third")
    shown = contents(server.inference.requests[-1].messages)
    assert shown == ["first", "one", "second", "two", "seen", "two more", "third"]


def test_a_summary_of_an_end_is_kept_and_charged_once(make: Make) -> None:
    """The context window has no room for the turns before, so each end summarizes them."""
    long = "x" * 8_000
    server = make(
        long,
        long,
        ScriptedReply(("the summary",)),
        "more",
        ScriptedReply(("the summary",)),
        "fine",
        summaries=True,
        context_tokens=6_000,
    )
    ref = server.session()
    server.whole_turn(ref, "first")
    server.whole_turn(ref, "second")
    turn = ref.turn(server.states(ref)[-1].order)
    assert server.state(turn).summary is not None
    resumed(server, turn)
    assert server.state(turn).spent["scripted"].inferences == 3
    header = server.header(ref).spent
    assert header is not None
    assert header.by_model["scripted"].inferences == len(server.inference.requests)


def test_a_plain_call_of_the_model_is_still_answered_only_by_its_id(make: Make) -> None:
    server = make(calls(call("look", "c")), "done")
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    with pytest.raises(CallsMismatch):
        server.resume(turn, answer("another"))
    assert resumed(server, turn, answer("c")) == RESUMED
    with pytest.raises(TurnNotAwaiting, match="already answered"):
        server.resume(turn, answer("1"), answer("c"))
    assert resumed(make("more"), turn) == RESUMED
