"""Turns with shields over a real store: their events, their records, the history of later turns, and their cost.

Covers: services/shields/shielding, engine/shields, services/streams/replay
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls
from tests.fakes.shields import Judges, clean, fails, found, registered, stops
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Held,
    answer,
    attempt,
    client_tool,
    completes_turn,
    contents,
    outline,
    saves_step,
    serving,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, ModelFailed, ShieldFailed, StoreUnavailable, TurnNotAwaiting
from turnstone.domain.messages.messages import UserMessage, message_text
from turnstone.domain.refs import SessionRef
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import StepStarted
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import NewTurn, ShieldCallStep, TurnStatus, Verdict
from turnstone.services.streams.replay import replayed
from turnstone.store.layout.keys import directory_key

SHIELD_S = 0.1
OVER_ONE_SHIELD_S = 0.03
ATTEMPTS = 5
STEP = "S:shield C:shield"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    yield from serving(tmp_path)


def with_shields(server: Harness, **judges: Judges) -> Harness:
    """Register shields that judge as scripted, once, and add them to the server's kinds."""
    server.shields.script = judges
    for name in judges:
        server.core.shields.register(LOCAL_CALLER, registered(name), attempt())
    return server


def steps_of(server: Harness, ref: SessionRef) -> list[str]:
    return [step.step_type for step in server.states(ref)[-1].turn.steps]


def test_a_clean_turn_is_published_and_stored_with_a_step_for_each_shield(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve(["hi"]), a=clean, b=clean)
    ref = server.session(input_shields=["a", "b"], output_shields=["a"])
    events = server.whole_turn(ref)
    assert outline(events) == f"start {STEP} {STEP} S:infer P C:infer {STEP} complete"
    starts = [event.metadata for event in events if isinstance(event, StepStarted)]
    before = {"touchpoint": "user-input"}
    assert starts == [before, before, {}, {"touchpoint": "assistant-output"}]
    assert turn_in(events).output_message.content == "hi"
    (state,) = server.states(ref)
    assert [trace.shield_id for trace in state.traces] == ["a", "b", None, "a"]
    assert replayed(state) == events
    server.assert_whole(ref)


def test_a_stopped_question_ends_the_turn_and_is_never_shown_to_the_model(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve(["and?"]), a=stops("bomb"))
    ref = server.session(input_shields=["a"], instructions="Be brief.")
    events = server.whole_turn(ref, "how to build a bomb?")
    assert outline(events) == f"start {STEP} complete"
    turn = turn_in(events)
    assert (turn.output_message.content, turn.output_message.stop_reason) == ("stopped", "end_of_turn")
    (step,) = turn.steps
    assert isinstance(step, ShieldCallStep)
    assert step.violation is not None
    assert step.violation.metadata == {"shield_id": "a"}
    server.whole_turn(ref, "hello")
    assert contents(server.inference.requests[0].messages) == ["Be brief.", "hello"]
    server.assert_whole(ref)


def test_a_stopped_answer_is_replaced_and_never_shown_to_the_model_again(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([ScriptedReply(("the ", "secret")), "ok"]), a=stops("secret"))
    ref = server.session(output_shields=["a"])
    events = server.whole_turn(ref, "tell me")
    assert outline(events) == f"start S:infer P P C:infer {STEP} complete"
    assert turn_in(events).output_message.content == "stopped"
    server.whole_turn(ref, "and?")
    assert contents(server.inference.requests[1].messages) == ["tell me", "stopped", "and?"]
    assert [state.status for state in server.states(ref)] == [TurnStatus.COMPLETED] * 2
    server.assert_whole(ref)


def test_many_stopped_questions_do_not_fill_a_segment_forever(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([]), a=stops("bomb"))
    ref = server.session(input_shields=["a"])
    for _ in range(70):
        server.whole_turn(ref, "bomb")
    sizes = [len(segment.entries) for segment in server.segments(ref)]
    assert sum(sizes) == 70
    assert max(sizes) <= 32
    server.assert_whole(ref)


def test_a_turn_changes_the_shields_of_its_agent_for_itself(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve(["hi", "hi"]), a=stops("hello"), b=clean)
    ref = server.session(input_shields=["a"])
    assert outline(server.whole_turn(ref)) == f"start {STEP} complete"
    assert outline(server.whole_turn(ref, input_shields=[])) == "start S:infer P C:infer complete"
    events = server.whole_turn(ref, input_shields=["b"], output_shields=["b"])
    assert outline(events) == f"start {STEP} S:infer P C:infer {STEP} complete"


def test_a_resumed_turn_is_judged_by_the_shields_of_its_opening_but_its_question_not_again(
    serve: Callable[..., Harness],
) -> None:
    server = with_shields(
        serve([calls(call("look", "l1"), text="One moment."), "the secret"]), a=clean, b=stops("secret")
    )
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, input_shields=["a"], output_shields=["b"])
    assert steps_of(server, ref) == ["shield_call", "inference", "shield_call"]
    before = len(server.shields.questions)
    events = server.drain(server.resume(turn, answer("l1", "a door")))
    assert outline(events) == f"C:tool {STEP} S:infer P C:infer {STEP} complete"
    assert turn_in(events).output_message.content == "stopped"
    (name, question), *_ = server.shields.questions[before:]
    assert (name, question.touchpoint, contents(question.judged)) == ("a", "user-input", ["a door"])
    assert contents(question.before) == ["look"]
    server.assert_whole(ref)


@pytest.mark.parametrize("pause", [call("look", "l1"), "look: a door"], ids=["called", "read out of the text"])
def test_a_stopped_answer_of_a_clients_tool_ends_the_turn_and_is_never_shown_to_the_model(
    serve: Callable[..., Harness], pause: Any
) -> None:
    server = with_shields(serve([pause, "and?"]), a=stops("bomb"))
    ref = server.session(client_tools=[client_tool()], input_shields=["a"])
    turn = ref.turn(turn_in(server.whole_turn(ref, "look")).turn_id)
    responses = [answer("l1", "a bomb"), *([answer("l2", "a door")] if pause == "look: a door" else [])]
    events = server.drain(server.resume(turn, *responses))
    assert outline(events) == f"C:tool {STEP} complete"
    ended = turn_in(events)
    assert (ended.output_message.content, ended.output_message.stop_reason) == ("stopped", "end_of_turn")
    assert [step.step_type for step in ended.steps] == ["shield_call", "inference", "tool_execution", "shield_call"]
    assert "a bomb" in str(ended.steps[2]), "the record keeps the sent answer, as it keeps a question"
    server.whole_turn(ref, "hello")
    (_, request) = server.inference.requests
    assert "a bomb" not in str(request.messages)
    assert [message.role for message in request.messages][-1] == "user"
    server.assert_whole(ref)
    with pytest.raises(TurnNotAwaiting):
        server.resume(turn, answer("l1"))


def test_the_name_of_a_call_read_out_of_the_text_is_judged_and_never_shown_unjudged(
    serve: Callable[..., Harness],
) -> None:
    server = with_shields(serve(["look: a door", "fine", "look", "fine"]), a=stops("bomb"))
    ref = server.session(input_shields=["a"])
    named = ToolResponse(call_id="bomb-id", tool_name="how to build a bomb", content="a door")
    turn = ref.turn(turn_in(server.whole_turn(ref, "look")).turn_id)
    assert outline(server.drain(server.resume(turn, named))) == f"C:tool {STEP} complete"
    server.whole_turn(ref, "hello")
    assert "bomb" not in str(server.inference.requests[-1].messages)
    server.shields.script = {"a": clean}
    turn = ref.turn(turn_in(server.whole_turn(ref, "look")).turn_id)
    server.drain(server.resume(turn, named))
    assert "how_to_build_a_bomb" in str(server.inference.requests[-1].messages), "a name that passed is shown"
    assert "bomb-id" not in str(server.inference.requests[-1].messages), "an id is no text of a user"
    server.assert_whole(ref)


def test_a_judged_answer_is_shown_to_the_model_later_however_its_turn_ended(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([call("look", "l1"), ScriptedReply(error=ModelFailed("broken")), "fine"]), a=clean)
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, input_shields=["a"])
    assert "failed" in outline(server.drain(server.resume(turn, answer("l1", "a door"))))
    server.whole_turn(ref, "hello")
    assert "a door" in contents(server.inference.requests[-1].messages)


def test_a_cancelled_turns_unjudged_answer_is_not_shown_to_the_model_later(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([call("look", "l1"), "fine"]), a=clean)
    judging = Held(Verdict())
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, input_shields=["a"])
    server.shields.script = {"a": judging}
    running = server.resume(turn, answer("l1", "a bomb"))
    judging.wait()
    server.core.cancelling.cancel(LOCAL_CALLER, turn, attempt())
    judging.open()
    server.drain(running)
    server.whole_turn(ref, "hello")
    assert "a bomb" not in str(server.inference.requests[-1].messages)
    server.assert_whole(ref)


@pytest.mark.parametrize("ending", ["cancelled", "superseded"])
def test_a_question_that_was_never_judged_is_not_shown_to_the_model_later(
    serve: Callable[..., Harness], ending: str
) -> None:
    server = with_shields(serve(["fine", "fine"]), a=clean, b=clean)
    judging = Held(Verdict())
    server.shields.script = {"a": clean, "b": judging}
    ref = server.session(input_shields=["a", "b", "a"])
    running = server.start(ref, "how to build a bomb?")
    judging.wait()
    if ending == "cancelled":
        server.core.cancelling.cancel(LOCAL_CALLER, running.ref, attempt())
    else:
        lease = server.core.leases.find(running.ref)
        assert lease is not None
        lease.lose()
        server.clock.advance(LEASE_S)
    judging.open()
    server.drain(running)
    server.shields.script = {"a": clean, "b": clean}
    server.whole_turn(ref, "hello", input_shields=[])
    server.whole_turn(ref, "hello")
    assert "bomb" not in str([request.messages for request in server.inference.requests])
    assert "bomb" not in str(server.core.contexts.read(LOCAL_CALLER, ref))
    assert "bomb" in str(server.states(ref)[0].turn.input_messages), "the record keeps the sent text"
    server.assert_whole(ref)


def test_a_turn_taken_over_has_its_question_judged_and_shown_to_the_model_later(serve: Callable[..., Harness]) -> None:
    first = with_shields(serve([]), a=clean, b=clean)
    ref = first.session(input_shields=["a", "b"])
    first.store.after(saves_step, first.store.die)
    turn = first.start(ref, "a harmless question").ref
    first.settle()
    heir = first.another([ScriptedReply(error=ModelFailed("broken")), "fine"])
    heir.shields.script = {"a": clean, "b": clean}
    first.clock.advance(LEASE_S)
    heir.reconcile_turn(turn)
    heir.settle()
    heir.whole_turn(ref, "hello")
    assert contents(heir.inference.requests[-1].messages) == ["a harmless question", "hello"]
    heir.assert_whole(ref)


def test_shields_that_have_judged_an_answer_do_not_judge_it_again_after_a_crash(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([call("look", "l1"), "never"]), a=clean, b=clean)
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, input_shields=["a", "b"])
    before = len(server.shields.questions)
    server.store.after(saves_step, server.store.die)
    server.drain(server.resume(turn, answer("l1")))
    heir = server.another(["fine"])
    heir.shields.script = {"a": clean, "b": clean}
    server.clock.advance(LEASE_S)
    outlook = heir.core.recovery.reconcile(turn)
    assert outlook.run is not None
    heir.drain(outlook.run)
    assert [name for name, _ in heir.shields.questions] == ["b"]
    assert len(server.shields.questions) > before
    assert steps_of(heir, ref) == [
        *["shield_call"] * 2,
        "inference",
        "tool_execution",
        *["shield_call"] * 2,
        "inference",
    ]
    heir.assert_whole(ref)


@pytest.mark.parametrize("field", ["input_shields", "output_shields"])
def test_an_unknown_shield_is_taken_of_an_agent_and_refused_of_its_turn_before_it_opens(
    serve: Callable[..., Harness], field: str
) -> None:
    server = serve([])
    ref = server.session(**{field: ["nobody"]})
    with pytest.raises(InvalidRequest, match="there is no shield 'nobody'") as refused:
        server.start(ref)
    assert refused.value.location == (field,)
    assert server.states(ref) == []


@pytest.mark.parametrize(("params", "status"), [({}, "stopped"), ({"on_failure": "allow"}, "hi")])
def test_a_shield_that_fails_stops_the_turn_unless_configured_otherwise(
    serve: Callable[..., Harness], params: dict[str, Any], status: str
) -> None:
    server = serve(["hi"])
    server.shields.script = {"a": fails(ShieldFailed("no answer"))}
    server.core.shields.register(LOCAL_CALLER, registered("a", **params), attempt())
    turn = turn_in(server.whole_turn(server.session(input_shields=["a"])))
    shown = "I can't answer that now" if status == "stopped" else "hi"
    assert shown in str(turn.output_message.content)
    step = turn.steps[0]
    assert isinstance(step, ShieldCallStep)
    assert step.violation is not None
    assert step.violation.metadata == {"shield_id": "a", "failure": "no answer"}


def test_a_shield_that_was_unregistered_while_the_turn_waited_stops_its_answer(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([call("look", "l1"), "hi"]), a=clean)
    turn = server.paused(server.session(client_tools=[client_tool()], output_shields=["a"]))
    server.core.shields.unregister(LOCAL_CALLER, "a")
    ended = turn_in(server.drain(server.resume(turn, answer("l1"))))
    assert "I can't answer that now" in str(ended.output_message.content)


# ---- the order of writes


def test_a_step_of_a_shield_is_stored_before_it_is_published_and_the_last_one_by_the_close(
    serve: Callable[..., Harness],
) -> None:
    server = with_shields(serve(["hi"]), a=clean, b=clean)
    ref = server.session(input_shields=["a", "b"], output_shields=["a", "b"])
    server.whole_turn(ref)
    writes = [call for call in server.store.calls if call.verb == "write"]
    opened = next(index for index, call in enumerate(writes) if any("turn:" in op.key.sk for op in call.operations))
    of_the_turn = writes[opened + 1 :]
    assert [saves_step(call) for call in of_the_turn[:5]] == [True, True, True, True, False]
    assert completes_turn(of_the_turn[4])


def test_a_turn_with_shields_reads_no_more_than_one_without(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve(["hi"] * 4), a=clean)
    guarded, plain = server.session(input_shields=["a"]), server.session()

    def reads(ref: SessionRef) -> list[str]:
        before = len(server.store.calls)
        server.whole_turn(ref)
        return [call.verb for call in server.store.calls[before:] if call.verb in ("get", "gather") and call.keys]

    for _ in range(2):
        assert reads(plain) == reads(guarded) == ["gather"]
        server.clock.advance(10)


@pytest.mark.parametrize("stored", [1, 2, 3, 4])
def test_a_takeover_calls_the_shields_whose_verdicts_were_not_stored(
    serve: Callable[..., Harness], stored: int
) -> None:
    first = with_shields(serve(["hi"]), a=clean, b=clean, c=clean)
    ref = first.session(input_shields=["a", "b"], output_shields=["c", "a"])
    seen = 0

    def die_behind(call: Any) -> bool:
        nonlocal seen
        seen += saves_step(call)
        return saves_step(call) and seen == stored

    first.store.after(die_behind, first.store.die)
    turn = first.start(ref).ref
    first.settle()
    heir = first.another(["hi"])
    heir.shields.script = first.shields.script
    first.clock.advance(LEASE_S)
    heir.reconcile_turn(turn)
    heir.settle()
    assert [name for name, _ in heir.shields.questions] == ["a", "b", "c", "a"][stored if stored < 3 else stored - 1 :]
    assert len(heir.inference.requests) == (1 if stored < 3 else 0)
    assert [trace.shield_id for trace in heir.state(turn).traces] == ["a", "b", None, "c", "a"]
    assert heir.state(turn).status is TurnStatus.COMPLETED
    heir.assert_whole(ref)


def test_a_turn_that_was_cancelled_before_its_answer_was_judged_does_not_show_it_later(
    serve: Callable[..., Harness],
) -> None:
    held = Held()
    server = serve([ScriptedReply(("unjudged",)), "ok"])

    def judge(_: ShieldQuestion) -> Verdict:
        held.pass_through()
        return Verdict()

    with_shields(server, a=judge)
    ref = server.session()
    broadcast = server.start(ref, "tell me", output_shields=["a"])
    held.wait()
    server.core.cancelling.cancel(LOCAL_CALLER, broadcast.ref, attempt())
    held.open()
    server.settle()
    server.whole_turn(ref, "and?")
    assert contents(server.inference.requests[1].messages) == ["tell me", "and?"]
    server.assert_whole(ref)


def test_a_lost_lease_ends_the_wait_for_a_silent_shield(serve: Callable[..., Harness]) -> None:
    held = Held()
    server = serve(["hi"])

    def judge(_: ShieldQuestion) -> Verdict:
        held.pass_through()
        return Verdict()

    with_shields(server, a=judge)
    broadcast = server.start(server.session(input_shields=["a"]))
    held.wait()
    lease = server.core.leases.find(broadcast.ref)
    assert lease is not None
    lease.lose()
    server.settle()
    assert outline(server.drain(broadcast)).endswith("failed:lease_lost")
    assert server.state(broadcast.ref).turn.steps == ()
    held.open()


def test_a_registry_that_can_not_be_read_leaves_the_turn_to_be_continued(serve: Callable[..., Harness]) -> None:
    server = serve(["hi"])
    with_shields(server, a=clean)
    ref = server.session(output_shields=["a"])

    def read_no_more(call: Any) -> bool:
        return call.verb == "get" and call.keys == (directory_key("local").sk,)

    def unavailable() -> None:
        raise StoreUnavailable("not now")

    server.store.before(read_no_more, unavailable)
    server.store.after(saves_step, lambda: server.clock.advance(10))
    events = server.drain(server.start(ref))
    assert outline(events).endswith("failed:store_unavailable")
    server.reconcile_after_leases()
    (state,) = server.states(ref)
    assert state.status is TurnStatus.COMPLETED


# ---- duration


def test_two_shields_of_100_ms_take_little_longer_than_one(serve: Callable[..., Harness]) -> None:
    def slowly(_: ShieldQuestion) -> Verdict:
        time.sleep(SHIELD_S)
        return Verdict()

    called_at: list[float] = []

    def note(_: object) -> str:
        called_at.append(time.perf_counter())
        return "hi"

    server = with_shields(serve([note] * 2 * ATTEMPTS), a=slowly, b=slowly)
    plain, guarded = server.session(), server.session(input_shields=["a", "b"], output_shields=["a", "b"])

    def spans(ref: SessionRef) -> tuple[float, float]:
        began = time.perf_counter()
        server.whole_turn(ref)
        return called_at[-1] - began, time.perf_counter() - called_at[-1]

    added = [
        tuple(with_them - without for with_them, without in zip(spans(guarded), spans(plain), strict=True))
        for _ in range(ATTEMPTS)
    ]
    for part in zip(*added, strict=True):
        # other work of the machine only adds time, so the least is the time of the shields themselves
        assert SHIELD_S / 2 < min(part) <= SHIELD_S + OVER_ONE_SHIELD_S, added


def test_a_turn_is_stopped_by_whichever_shield_finds_a_violation(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve([]), a=clean, b=lambda _: found(), c=lambda _: found(user_message="third"))
    events = server.whole_turn(server.session(input_shields=["a", "b", "c"]))
    assert outline(events) == f"start {STEP} {STEP} complete"
    assert turn_in(events).output_message.content == "stopped"


def test_documents_of_a_turn_are_judged_with_its_messages(serve: Callable[..., Harness]) -> None:
    server = with_shields(serve(["hi"]), a=stops("bomb"))
    ref = server.session(input_shields=["a"])
    for text, outlined in (
        ("how to build a bomb", f"start {STEP} complete"),
        ("a recipe", f"start {STEP} S:infer P C:infer complete"),
    ):
        new = NewTurn(messages=(UserMessage(content="hello"),), documents=(TurnDocument(content=text),))
        broadcast = server.turns.start(LOCAL_CALLER, ref, new, attempt())
        assert outline(server.drain(broadcast)) == outlined
    (request,) = server.inference.requests
    assert message_text(request.messages[-1]) == "hello\na recipe"
