"""The cuts of a step repeat its stream, chunk for chunk, and a replay of a turn with cuts equals its stream.

Covers: domain/turns/cuts, services/streams/replay, engine/turn
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.models.scripted import ScriptedReply, call
from tests.support.engine.turn_loop import CLIENT_CALL, NOW, PRICE, Engine, new_turn, read_again
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import (
    ArgumentsChunk,
    CallBegun,
    Chunk,
    Inferred,
    ReasoningChunk,
    TextChunk,
    call_pieces,
)
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.turns.cuts import cut_again, cuts_of
from turnstone.domain.turns.events import (
    Numbered,
    StepDetailed,
    StepProgressed,
    TextDelta,
    TurnAwaitsInput,
    TurnCompleted,
    TurnEvent,
    TurnStarted,
)
from turnstone.domain.turns.turns import InferenceStep, TurnState
from turnstone.engine.steps import AwaitClientTools
from turnstone.services.streams.replay import events_before_resume, numbered, replayed

PARTS = st.sampled_from(["", "😀", "é", "x" * 31, "y" * 32, "z" * 1_025, "\ud7ff\u0301", "\\ud83d", "{"])
SOME = st.lists(PARTS, max_size=4)


@st.composite
def streams(draw: st.DrawFn, min_calls: int = 0, max_calls: int = 3) -> tuple[tuple[Chunk, ...], tuple[ToolCall, ...]]:
    """Return the chunks of an answer in any order that a provider may send, with its calls."""
    arguments = draw(st.lists(SOME, min_size=min_calls, max_size=max_calls))
    calls = tuple(call_from_json(f"c{number}", "price", "".join(parts)) for number, parts in enumerate(arguments))
    begun: list[Chunk] = [CallBegun(number, f"c{number}", "price") for number in range(len(calls))]
    lines: list[list[Chunk]] = [
        [TextChunk(part) for part in draw(SOME)],
        [ReasoningChunk(part) for part in draw(SOME)],
    ]
    for number, parts in enumerate(arguments):
        sent = parts if "".join(parts) else [*parts, "{}"]
        lines.append([begun[number], *(ArgumentsChunk(number, part) for part in sent)])
    order = draw(st.permutations([number for number, line in enumerate(lines) for _ in line]))
    return tuple(lines[number].pop(0) for number in order), calls


def answer_of(chunks: Sequence[Chunk], calls: tuple[ToolCall, ...] = ()) -> Inferred:
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    message = CompletionMessage(content=text, stop_reason="end_of_turn", tool_calls=calls)
    return Inferred(message, reasoning=reasoning)


@given(streams())
def test_cuts_repeat_every_chunk(stream: tuple[tuple[Chunk, ...], tuple[ToolCall, ...]]) -> None:
    chunks, calls = stream
    answer = answer_of(chunks, calls)
    cuts = cuts_of(chunks, answer)
    assert not cuts.startswith("!")
    assert cut_again(cuts, str(answer.message.content), answer.reasoning, calls) == list(chunks)


def test_cuts_take_about_a_byte_a_chunk() -> None:
    reasoning, text = [ReasoningChunk("word ")] * 1_000, [TextChunk("word ")] * 1_000
    arguments = [CallBegun(0, "c", "price"), *[ArgumentsChunk(0, '"xy"')] * 1_000]
    chunks = (*reasoning, *text, *arguments)
    cuts = cuts_of(chunks, answer_of(chunks, (call_from_json("c", "price", '"xy"' * 1_000),)))
    assert len(json.dumps(cuts)) < 3_010


@pytest.mark.parametrize(
    "chunks",
    [
        (TextChunk("a"),),
        (TextChunk("ab"), ReasoningChunk("hm"), *call_pieces([PRICE])),
        (TextChunk("ab"), CallBegun(0, "other", "price")),
        (TextChunk("ab"), CallBegun(1, "c1", "price")),
        (TextChunk("ab"), CallBegun(0, "c1", "pri")),
    ],
    ids=["less text", "more reasoning", "other id", "more calls", "other name"],
)
def test_cuts_of_an_answer_that_differs_from_its_chunks_hold_these(chunks: tuple[Chunk, ...]) -> None:
    message = CompletionMessage(content="ab", stop_reason="end_of_turn", tool_calls=(PRICE,))
    cuts = cuts_of(chunks, Inferred(message))
    assert cuts.startswith("!")
    assert cut_again(cuts, "ab", "", (PRICE,)) == list(chunks)


@pytest.mark.parametrize(
    "cuts",
    ["!", "!{}x", '![["?","a"]]', '![["+",1]]', "![1]", "#", "B", "CB", "~B", "+B", "+A(BB", "A", "", "CCC", "g", "+"],
)
def test_damaged_cuts_are_refused(cuts: str) -> None:
    with pytest.raises(ValueError, match="cuts"):
        cut_again(cuts, "ab" if cuts != "+" else "abc", "", ())


def streamed(*script: ScriptedReply, keeps_details: bool = True) -> tuple[tuple[TurnEvent, ...], TurnState]:
    """Return the events of a turn, as its subscribers received them, and its stored state."""
    engine = Engine(*script)
    ending = engine.run(new_turn().model_copy(update={"keeps_details": keeps_details}))
    left = ending.unpublished
    if isinstance(ending, AwaitClientTools):
        state, last = ending.state, ()
    else:
        state = ending.state.completed(ending.output, NOW)
        last = (TurnCompleted(turn=state.turn, state=state),)
    return (TurnStarted(turn_id="t1"), *engine.emitted, *left, *last), read_again(state)


def chunks_with(stream: tuple[tuple[Chunk, ...], tuple[ToolCall, ...]]) -> ScriptedReply:
    return ScriptedReply(chunks=stream[0], calls=stream[1])


@given(streams(min_calls=1), streams(max_calls=0))
def test_a_replay_with_details_is_what_was_streamed_with_its_numbers(
    first: tuple[tuple[Chunk, ...], tuple[ToolCall, ...]], second: tuple[tuple[Chunk, ...], tuple[ToolCall, ...]]
) -> None:
    if not second[0]:
        second = ((TextChunk("so"),), ())
    events, state = streamed(chunks_with(first), chunks_with(second))
    assert replayed(state) == events
    again = numbered(state, is_detailed=True)
    others = [each for each in again if not isinstance(each.event, StepDetailed)]
    assert [each.number for each in others] == list(range(1, len(others) + 1))
    assert {each.number for each in again if isinstance(each.event, StepDetailed)} <= {None}
    plain = [each for each in numbered(state) if not isinstance(each.event, StepDetailed)]
    assert list(numbered(state)) == plain
    assert [each.number for each in plain][-1] == others[-1].number


THINKING = ScriptedReply(
    chunks=(
        ReasoningChunk("Hm, "),
        TextChunk("Let "),
        ReasoningChunk("tea."),
        TextChunk("me see."),
        CallBegun(0, "c1", "price"),
        ArgumentsChunk(0, '{"item":'),
        ArgumentsChunk(0, '"tea"}'),
    ),
    calls=(call_from_json("c1", "price", '{"item":"tea"}'),),
)
PLAIN = ScriptedReply(("It ", "is."))


def details_in(events: Sequence[TurnEvent]) -> list[Chunk]:
    return [event.piece for event in events if isinstance(event, StepDetailed)]


def test_the_engine_emits_each_piece_as_it_arrives() -> None:
    events, state = streamed(THINKING, PLAIN)
    pieces = [chunk for chunk in THINKING.chunks if not isinstance(chunk, TextChunk)]
    assert details_in(events) == pieces
    first = next(index for index, event in enumerate(events) if isinstance(event, StepProgressed))
    assert isinstance(events[first - 1], StepDetailed)
    assert isinstance(events[first + 1], StepDetailed)
    step = state.turn.steps[0]
    assert {event.step_id for event in events if isinstance(event, StepDetailed)} == {step.step_id}


def test_a_turn_keeps_details_only_where_its_dialect_requires_them() -> None:
    events, state = streamed(THINKING, PLAIN, keeps_details=False)
    assert not details_in(events)
    assert [(trace.reasoning, trace.cuts) for trace in state.traces] == [("", None)] * 3
    assert "reasoning" not in json.dumps(state.model_dump(mode="json", exclude_defaults=True))
    _, state = streamed(THINKING, PLAIN)
    assert [trace.reasoning for trace in state.traces] == ["Hm, tea.", "", ""]
    assert [trace.cuts for trace in state.traces] == ["~E.E~E.H+AIG", None, "DD"]


def test_later_requests_do_not_contain_the_reasoning() -> None:
    engine = Engine(THINKING, PLAIN)
    engine.run(new_turn().model_copy(update={"keeps_details": True}))
    assert "Hm, " not in str(engine.inference.requests[1])
    assert "tea.'" not in str(engine.inference.requests[1])


def test_without_cuts_a_detailed_replay_has_each_part_as_one() -> None:
    _, state = streamed(THINKING, PLAIN, keeps_details=False)
    events = [each.event for each in numbered(state, is_detailed=True)]
    assert details_in(events) == list(call_pieces(THINKING.calls))
    kept = state.traces[0].model_copy(update={"reasoning": "Hm, tea.", "cuts": "~Z"})
    state = state.model_copy(update={"traces": (kept, *state.traces[1:])})
    again = numbered(state, is_detailed=True)
    assert details_in([each.event for each in again]) == [ReasoningChunk("Hm, tea."), *call_pieces(THINKING.calls)]
    assert tuple(each for each in again if not isinstance(each.event, StepDetailed)) == numbered(state)
    assert again[3].event == StepProgressed(
        step_type="inference", step_id=state.turn.steps[0].step_id, delta=TextDelta(text="Let me see.")
    )


def test_the_events_before_a_pause_have_details_too() -> None:
    looking = ScriptedReply(chunks=(ReasoningChunk("Hm"), *call_pieces([CLIENT_CALL])), calls=(CLIENT_CALL,))
    events, state = streamed(looking)
    before = events_before_resume(state, is_detailed=True)
    assert tuple(each.event for each in before) == events
    assert all(isinstance(each, Numbered) for each in before)
    assert not isinstance(events[-1], TurnAwaitsInput)
    assert isinstance(state.turn.steps[0], InferenceStep)
    assert call("ask", "c3", question="how many?") == CLIENT_CALL
