"""Streams of tokens: the fragments of each message together are the message, for any parts that a model sends.

Covers: dialects/letta/turns/token_stream, dialects/letta/turns/stream
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, AnswerTool, response_of
from turnstone.dialects.letta.turns.stream import DONE
from turnstone.dialects.letta.turns.token_stream import LettaTokenStream
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Piece, ReasoningChunk
from turnstone.domain.tools.tools import ToolCall, ToolResponse, call_from_json
from turnstone.domain.turns.events import (
    Numbered,
    StepDetailed,
    StepProgressed,
    StepStarted,
    TextDelta,
    TurnEvent,
    TurnStarted,
    call_delta,
    step_completed,
    turn_completed,
)
from turnstone.domain.turns.loop_policies import LETTA
from turnstone.domain.turns.turns import (
    InferenceStep,
    Step,
    StepTrace,
    ToolExecutionStep,
    Turn,
    TurnState,
    silent_output,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURN = "019b76da-a800-7000-8000-000000000000"  # of that time
SENT = '{"inner_thoughts": "Hm \\"so\\" \\ud83d\\ude00.", "message": "Hello\\n\\u00e9 {you}"}'
NOTED = (
    '{"inner_thoughts": "I keep it.", "label": "human", "content": "a \\"b\\"", "n": [1.50], "request_heartbeat": true}'
)


def send(arguments: str = SENT) -> ToolCall:
    return call_from_json("c1", "send_message", arguments)


def note(arguments: str = NOTED) -> ToolCall:
    return call_from_json("c0", "note", arguments)


def inference(*calls: ToolCall, text: str = "") -> InferenceStep:
    message = CompletionMessage(content=text, stop_reason="end_of_turn", tool_calls=calls)
    return InferenceStep(turn_id=TURN, step_id="i", started_at=NOW, completed_at=NOW, model_response=message)


def answered(of: ToolCall, content: str = "None") -> ToolExecutionStep:
    response = ToolResponse(call_id=of.call_id, tool_name=of.tool_name, content=content)
    return ToolExecutionStep(
        turn_id=TURN, step_id="s", started_at=NOW, completed_at=NOW, tool_calls=(of,), tool_responses=(response,)
    )


def turn(*steps: Step) -> TurnState:
    made = Turn(
        turn_id=TURN,
        session_id="s",
        input_messages=(UserMessage(content="hi"),),
        steps=steps,
        output_message=silent_output(),
        started_at=NOW,
    )
    return TurnState(turn=made, order=TURN, traces=tuple(StepTrace() for _ in steps), policy=LETTA)


def pieces_of(call: ToolCall, index: int, lengths: Iterable[int]) -> list[Piece]:
    text, pieces, at = call.arguments_json or "", [], 0
    for length in lengths:
        pieces.append(ArgumentsChunk(index, text[at : at + length]))
        at += length
        if at >= len(text):
            break
    return [CallBegun(index, call.call_id, call.tool_name), *pieces]


def events_of(step: Step, lengths: Sequence[int] | None, *, parts: Iterable[str] = ()) -> list[TurnEvent]:
    """Return the events of a step whose arguments come in parts of these lengths; None: whole, with the step."""
    events: list[TurnEvent] = [StepStarted(step_type=step.step_type, step_id=step.step_id)]
    if isinstance(step, InferenceStep):
        calls = step.model_response.tool_calls
        deltas = (TextDelta(text=text) for text in parts)
        events += [StepProgressed(step_type="inference", step_id="i", delta=delta) for delta in deltas]
        if lengths is not None:
            for index, call in enumerate(calls):
                events += [StepDetailed("i", piece) for piece in pieces_of(call, index, lengths)]
        events += [StepProgressed(step_type="inference", step_id="i", delta=call_delta(call)) for call in calls]
    return [*events, step_completed(step)]


def encoded(events: Iterable[TurnEvent], answers_by: AnswerTool) -> list[dict[str, Any]]:
    stream = LettaTokenStream(TURN, 1, answers_by)
    sent = b"".join(stream.encode(Numbered(event, None)) for event in events)
    assert sent.endswith(DONE) or DONE not in sent
    lines = sent.removesuffix(DONE).decode().split("\n\n")[:-1]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def folded(notes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with the fragments of each joined, without dates."""
    whole: list[dict[str, Any]] = []
    for each in notes:
        shown = {name: value for name, value in each.items() if name != "date"}
        key = (each.get("id"), each["message_type"])
        last = whole[-1] if whole and (whole[-1].get("id"), whole[-1]["message_type"]) == key else None
        if last is None:
            whole.append(shown)
            continue
        for name in ("reasoning", "assistant_message"):
            if name in each:
                last[name] += each[name]
        for name, value in each.get("tool_call", {}).items():
            last["tool_call"][name] = last["tool_call"].get(name, "") + value
    return whole


def whole_of(state: TurnState, answers_by: AnswerTool) -> list[dict[str, Any]]:
    answer = response_of(state, answers_by)
    notes = [each.model_dump(mode="json") for each in (*answer.messages, answer.usage)]
    return folded(notes)


@pytest.mark.parametrize("answers_by", [AnswerTool(), NO_ANSWER_TOOL, AnswerTool("note", "content")])
@pytest.mark.parametrize("seed", [None, *range(20)])
def test_fragments_together_are_the_messages(seed: int | None, answers_by: AnswerTool) -> None:
    random = Random(seed)
    lengths = [1] * 1_000 if seed is None else [random.randrange(1, 7) for _ in range(1_000)]
    steps = (inference(note()), answered(note()), inference(send()), answered(send()))
    state = turn(*steps)
    events = [TurnStarted(turn_id=TURN), *(event for step in steps for event in events_of(step, lengths))]
    notes = encoded([*events, turn_completed(state)], answers_by)
    assert folded(notes) == whole_of(state, answers_by)
    assert {each["date"] for each in notes if "date" in each} == {"2026-01-01T00:00:00Z"}
    if seed is None:
        assert len([each for each in notes if each["message_type"] == "reasoning_message"]) > len("I keep it.Hm so.")


def test_a_call_begins_with_its_name_after_the_thoughts() -> None:
    notes = encoded(events_of(inference(note()), [29, 5, 1_000]), AnswerTool())
    assert [each.get("reasoning") or each.get("tool_call") for each in notes] == [
        *("I keep it", "."),
        {"name": "note", "tool_call_id": "c0"},
        {"arguments": '{"label":"human","content":"a \\"b\\"","n":[1.5],"request_heartbeat":true}'},
    ]
    assert {each["id"] for each in notes} == {f"message-{TURN}-0001"}


@pytest.mark.parametrize(
    "call",
    [
        send('{"inner_thoughts": "x", "message": 7}'),
        send('{"inner_thoughts": 7, "message": ""}'),
        send("{}"),
        note("{}"),
        note('{"inner_thoughts": "x"}'),
        send("no json"),
    ],
)
@pytest.mark.parametrize("lengths", [None, [1] * 100])
def test_a_message_without_fragments_is_shown_whole(call: ToolCall, lengths: list[int] | None) -> None:
    step = inference(call)
    notes = encoded([*events_of(step, lengths), turn_completed(turn(step))], AnswerTool())
    assert folded(notes) == whole_of(turn(step), AnswerTool())


@pytest.mark.parametrize("parts", [("Let ", "me ", "see."), ("\n", " ", "Let me see."), ("\n \n",)])
@pytest.mark.parametrize("calls", [(), (send(),)])
def test_text_is_shown_before_the_thoughts(parts: tuple[str, ...], calls: tuple[ToolCall, ...]) -> None:
    step = inference(*calls, text="".join(parts))
    events = events_of(step, [1] * 100, parts=parts)
    notes = encoded([*events, turn_completed(turn(step))], AnswerTool())
    assert folded(notes) == whole_of(turn(step), AnswerTool())
    reasoning = "".join(each.get("reasoning", "") for each in notes)
    thoughts = 'Hm "so" 😀.' if calls else ""
    text = "".join(parts) if "".join(parts).strip() else ""
    assert reasoning == "\n\n".join(filter(None, (text, thoughts)))


def test_arguments_that_are_cut_off_end_as_they_are() -> None:
    cut_off = send('{"inner_thoughts": "x", "message": "Hello wor')
    notes = encoded(events_of(inference(cut_off), [1] * 100), AnswerTool())
    assert "".join(each.get("assistant_message", "") for each in notes) == "Hello wor"
    assert notes[-1]["tool_call"]["arguments"] == cut_off.arguments, "the call is no message to the user"


def test_the_model_s_own_reasoning_and_calls_after_the_first_have_no_fragments() -> None:
    step = inference(note(), send())
    events = events_of(step, [3] * 100)
    events.insert(1, StepDetailed("i", ReasoningChunk("secret")))
    notes = encoded(events, AnswerTool())
    assert "secret" not in str(notes)
    assert [each["assistant_message"] for each in notes if "assistant_message" in each] == ["Hello\né {you}"]
    assert folded([*notes])[:2] == whole_of(turn(step), AnswerTool())[:2]


@pytest.mark.parametrize(
    ("second", "message"), [(SENT, "Hello\né {you}"), ('{"inner_thoughts": "Other.", "message": "Else"}', "Else")]
)
def test_an_inference_that_begins_again_shows_what_is_missing(second: str, message: str) -> None:
    lost = events_of(inference(send()), [1] * 70)[:-2]
    again = events_of(inference(send(second)), [1] * 200)
    notes = encoded([*lost, *again], AnswerTool())
    before = encoded(lost, AnswerTool())
    assert notes[: len(before)] == before
    shown = "".join(each.get("assistant_message", "") for each in notes)
    assert shown.endswith(message)
    assert shown == message or not SENT.startswith(second)
