"""Shields in the turn loop: their order, the writes before each event, and the verdicts that stop a turn.

Covers: engine/shields, engine/turn
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, calls, cut_off
from tests.fakes.shields import clean, found, stops
from tests.support.engine.shield_steps import KEPT, LEFT_TO_THE_CLOSE, touchpoints, violations
from tests.support.engine.turn_loop import (
    CLIENT_CALL,
    CONFIG,
    INFERENCE_KEPT,
    PRICE,
    TOOL_KEPT,
    Engine,
    Saved,
    new_turn,
    outline,
    read_again,
)
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.sessions.context import ended_messages
from turnstone.domain.turns.events import step_completed
from turnstone.domain.turns.turns import StepTrace, TurnStatus, Verdict
from turnstone.engine.steps import AwaitClientTools, Blocked, Finish, RunAgain


def guarded(*script: Any, inputs: tuple[str, ...] = (), outputs: tuple[str, ...] = (), **judges: Any) -> Engine:
    config = CONFIG.model_copy(update={"input_shields": inputs, "output_shields": outputs})
    return Engine(*script, config=config, shields=judges)


def test_clean_shields_stand_before_and_behind_the_inference_and_the_last_step_is_left_to_the_close() -> None:
    engine = guarded("hi", inputs=("a", "b"), outputs=("b",), a=clean, b=clean)
    ending = engine.run(new_turn())
    assert outline(engine.journal) == [*KEPT, *KEPT, "S inference", "P hi", *INFERENCE_KEPT, *LEFT_TO_THE_CLOSE]
    assert touchpoints(engine) == ["user-input", "user-input", None, "assistant-output"]
    answer = CompletionMessage(content="hi", stop_reason="end_of_turn")
    assert Finish(ending.state, answer, unpublished=(step_completed(ending.state.turn.steps[-1]),)) == ending
    assert [trace.shield_id for trace in ending.state.traces] == ["a", "b", None, "b"]


def test_an_input_that_is_stopped_never_reaches_the_model() -> None:
    engine = guarded(inputs=("a", "b", "c"), a=clean, b=stops("hello"), c=clean)
    ending = engine.run(new_turn("hello"))
    assert outline(engine.journal) == [*KEPT, *LEFT_TO_THE_CLOSE]
    assert (
        Blocked(ending.state, CompletionMessage(content="stopped", stop_reason="end_of_turn"), ending.unpublished)
        == ending
    )
    assert ending.unpublished == (step_completed(ending.state.turn.steps[-1]),)
    assert engine.inference.requests == []


def test_an_output_that_is_stopped_is_not_the_answer() -> None:
    engine = guarded("a secret", outputs=("a", "b"), a=stops("secret"), b=clean)
    ending = engine.run(new_turn())
    assert outline(engine.journal) == ["S inference", "P a secret", *INFERENCE_KEPT, *LEFT_TO_THE_CLOSE]
    assert isinstance(ending, Blocked)
    assert ending.output.content == "stopped"


@pytest.mark.parametrize("level", ["info", "warn"])
def test_a_violation_that_is_only_noted_stops_nothing(level: str) -> None:
    engine = guarded("hi", inputs=("a",), outputs=("a",), a=lambda _: found(level))
    ending = engine.run(new_turn())
    assert isinstance(ending, Finish)
    assert violations(ending.state) == [found(level).violation] * 2


def test_the_user_s_messages_are_judged_before_and_only_the_answer_behind() -> None:
    engine = guarded("hi", inputs=("a",), outputs=("a",), a=clean)
    state = new_turn("hello")
    engine.run(state)
    (_, before), (_, behind) = engine.shields.questions
    assert (before.judged, before.before, before.touchpoint) == (state.turn.input_messages, (), "user-input")
    answer = CompletionMessage(content="hi", stop_reason="end_of_turn")
    assert (behind.judged, behind.before, behind.touchpoint) == (
        (answer,),
        state.turn.input_messages,
        "assistant-output",
    )


def test_a_shield_named_twice_judges_once() -> None:
    engine = guarded("hi", inputs=("a", "a"), outputs=("a", "a"), a=clean)
    engine.run(new_turn())
    assert [name for name, _ in engine.shields.questions] == ["a", "a"]
    assert touchpoints(engine) == ["user-input", None, "assistant-output"]


def test_shields_judge_a_question_once_and_an_answer_not_before_it_is_the_output() -> None:
    engine = guarded(PRICE, "3 coins", inputs=("a",), outputs=("a",), a=clean)
    engine.run(new_turn())
    called = ["S inference", "P c1 succeeded", *INFERENCE_KEPT, "S tool_execution", "P c1 in_progress", *TOOL_KEPT]
    answered = ["S inference", "P 3 coins", *INFERENCE_KEPT]
    assert [*KEPT, *called, *answered, *LEFT_TO_THE_CLOSE] == outline(engine.journal)


def test_text_beside_a_client_s_call_is_an_output_too() -> None:
    engine = guarded(calls(CLIENT_CALL, text="my secret"), outputs=("a",), a=stops("secret"))
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    passing = guarded(calls(CLIENT_CALL, text="fine"), outputs=("a",), a=stops("secret"))
    paused = passing.run(new_turn())
    assert isinstance(paused, AwaitClientTools)
    assert paused.unpublished == (step_completed(paused.state.turn.steps[-1]),)
    assert outline(passing.journal) == ["S inference", "P fine", "P c3 succeeded", *INFERENCE_KEPT, *LEFT_TO_THE_CLOSE]


def test_a_pause_is_judged_as_any_output_is() -> None:
    ending = guarded(CLIENT_CALL, outputs=("a",), a=clean).run(new_turn())
    assert isinstance(ending, AwaitClientTools)
    assert [step.step_type for step in ending.state.turn.steps] == ["inference", "shield_call"]
    assert isinstance(guarded(CLIENT_CALL, outputs=("a",), a=stops("")).run(new_turn()), Blocked)


@pytest.mark.parametrize("last", [cut_off("so"), calls(PRICE, text="so")], ids=["cut off", "no more inferences"])
def test_an_answer_that_ends_the_turn_for_another_reason_is_judged_too(last: ScriptedReply) -> None:
    config = CONFIG.model_copy(update={"output_shields": ("a",), "max_infer_iters": 1})
    ending = Engine(last, config=config, shields={"a": stops("so")}).run(new_turn())
    assert isinstance(ending, Blocked)


def test_after_a_crash_only_those_judge_whose_step_is_not_stored() -> None:
    first = guarded("hi", inputs=("a", "b"), outputs=("c", "d"), a=clean, b=clean, c=clean, d=clean)
    first.run(new_turn())
    saved = [entry.state for entry in first.journal if isinstance(entry, Saved)]
    stored = [[], ["a"], ["a", "b"], ["a", "b", None], ["a", "b", None, "c"]]
    for state, have_judged in zip([new_turn(), *saved], stored, strict=True):
        assert [trace.shield_id for trace in state.traces] == have_judged
        script = () if None in have_judged else ("hi",)
        again = guarded(*script, inputs=("a", "b"), outputs=("c", "d"), a=clean, b=clean, c=clean, d=clean)
        ending = again.run(read_again(state))
        left = [name for name in ("a", "b", "c", "d") if name not in have_judged]
        assert [name for name, _ in again.shields.questions] == left
        assert isinstance(ending, Finish)
        assert len(again.inference.requests) == len(script)


def test_a_shield_that_did_not_judge_before_the_first_inference_does_not_later() -> None:
    state = Engine(PRICE).move(new_turn())
    assert isinstance(state, RunAgain)
    engine = guarded("3 coins", inputs=("a",), a=stops("hello"))
    assert isinstance(engine.run(read_again(state.state)), Finish)


def test_verdicts_are_no_longer_waited_for_when_one_stops_the_turn() -> None:
    class Closing(Engine):
        closed = False

        def judge(self, shield_ids: Any, _: Any) -> Any:
            try:
                for _ in shield_ids:
                    yield found()
            finally:
                self.closed = True

    engine = Closing(config=CONFIG.model_copy(update={"input_shields": ("a", "b")}))
    engine.deps = engine.deps._replace(shields=engine)
    engine.run(new_turn())
    assert engine.closed


# ---- later turns


def afterwards(ending: Any, status: TurnStatus = TurnStatus.COMPLETED) -> list[tuple[str, str]]:
    turn = ending.state.turn.model_copy(
        update={"output_message": getattr(ending, "output", ending.state.turn.output_message)}
    )
    ended = ending.state.model_copy(update={"turn": turn, "status": status})
    return [(message.role, str(message.content)) for message in ended_messages(ended)]


def test_of_a_stopped_question_later_turns_show_nothing() -> None:
    assert afterwards(guarded(inputs=("a",), a=stops("hello")).run(new_turn("hello"))) == []


def test_instead_of_a_stopped_answer_later_turns_show_its_replacement() -> None:
    engine = guarded(PRICE, "a secret", outputs=("a",), a=stops("secret"))
    messages = afterwards(engine.run(new_turn("hello")))
    assert messages == [("user", "hello"), ("assistant", ""), ("tool", "3 coins"), ("assistant", "stopped")]


def test_of_a_stopped_pause_calls_that_ran_stay_and_those_of_the_client_go() -> None:
    engine = guarded(calls(PRICE, CLIENT_CALL, text="a secret"), outputs=("a",), a=stops("secret"))
    ending = engine.run(new_turn("hello"))
    assert isinstance(ending, Blocked)
    messages = ended_messages(ending.state.completed(ending.output, ending.state.turn.started_at))
    assert [(message.role, str(message.content)) for message in messages] == [
        ("user", "hello"),
        ("assistant", "stopped"),
        ("tool", "3 coins"),
    ]
    assert messages[1].tool_calls == (PRICE,)  # type: ignore[union-attr] # an answer of the model


def test_an_answer_with_a_noted_violation_stays() -> None:
    engine = guarded("hi", inputs=("a",), outputs=("a",), a=lambda _: found("warn"))
    assert afterwards(engine.run(new_turn("hello"))) == [("user", "hello"), ("assistant", "hi")]


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.CANCELLED])
def test_an_answer_without_a_verdict_is_not_shown(status: TurnStatus) -> None:
    engine = guarded("unjudged", outputs=("a",), a=clean)
    stored = engine.move(new_turn("hello"))
    assert isinstance(stored, RunAgain)
    assert afterwards(stored, status) == [("user", "hello")]


@pytest.mark.parametrize("status", [TurnStatus.FAILED, TurnStatus.CANCELLED, TurnStatus.EXPIRED])
@pytest.mark.parametrize(("judged_by", "is_shown"), [((), True), (("a",), True), (("a", "b"), False), (("b",), False)])
def test_a_question_is_shown_once_each_of_its_shields_passed_it(
    status: TurnStatus, judged_by: tuple[str, ...], is_shown: bool
) -> None:
    engine = guarded("never", inputs=("a",), a=lambda _: found("warn"))
    judged = engine.move(new_turn("hello").model_copy(update={"input_shields": judged_by}))
    assert isinstance(judged, RunAgain)
    assert afterwards(judged, status) == ([("user", "hello")] if is_shown else [])


def test_the_model_receives_the_question_that_was_judged() -> None:
    engine = guarded("hi", inputs=("a",), a=lambda _: Verdict())
    engine.run(new_turn("hello"))
    assert engine.inference.requests[0].messages[-1] == UserMessage(content="hello")
    assert StepTrace(shield_id="a", touchpoint="user-input") == engine.stored.traces[0]
