"""Removal of items from an ended turn. The positions of the others, and so their ids, stay."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnstone.domain.messages.messages import CompletionMessage, Message
from turnstone.domain.models.requests import (
    ArgumentsChunk,
    CallBegun,
    Chunk,
    Inferred,
    ReasoningChunk,
    TextChunk,
)
from turnstone.domain.sessions.context import Entry, Segment
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.cuts import cut_again, cuts_of
from turnstone.domain.turns.turns import InferenceStep, StepTrace, ToolExecutionStep, Turn, TurnState, silent_output
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import JsonObject

DELETED = "The answer to this call was deleted."


class RemovedInput(NamedTuple):
    """An input item. `messages` are those of the items that stay."""

    messages: tuple[Message, ...]


class RemovedText(NamedTuple):
    """A message of the model: the part of the text of the step's answer from `start` on, `length` characters."""

    step: int
    start: int
    length: int


class RemovedReasoning(NamedTuple):
    """A part of the reasoning of the step's answer."""

    step: int
    start: int
    length: int


class RemovedCall(NamedTuple):
    """A call of the step's answer."""

    step: int
    call_id: str


class RemovedAnswer(NamedTuple):
    """The client's answer to a call, in the step that holds it."""

    step: int
    call_id: str


class RemovedOutput(NamedTuple):
    """The message of a shield, which the turn shows in place of an answer."""


class Removal(NamedTuple):
    """The removal of one item of a turn.

    Attributes:
        input: the input items as stored, an empty one in place of each deleted one.
        position: of an output item, None for an input item.
    """

    removed: "Removed"
    input: tuple[JsonObject, ...]
    position: int | None = None


Removed = RemovedInput | RemovedText | RemovedReasoning | RemovedCall | RemovedAnswer | RemovedOutput


def position_of(index: int, removed: Iterable[int]) -> int:
    """Return the position of the item that is the one with that index among those that stay."""
    for position in sorted(removed):
        if position > index:
            break
        index += 1
    return index


def output_of(messages: Sequence[Message]) -> CompletionMessage:
    """Return the output message of a turn that no run made: its last message of a model, whose calls are open."""
    last = next((each for each in reversed(messages) if isinstance(each, CompletionMessage)), None)
    return last or silent_output("end_of_turn")


def is_deleted(answer: ToolResponse) -> bool:
    """Return whether a note replaces the client's answer, which was deleted."""
    return bool((answer.metadata or {}).get("deleted")) and answer.content == DELETED


def without(state: TurnState, removed: Removed) -> TurnState:
    """Return the ended turn without the content of the item."""
    turn = state.turn
    match removed:
        case RemovedInput(messages=messages):
            shown = turn.output_message if turn.steps else output_of(messages)
            return _with_turn(state, input_messages=messages, output_message=shown)
        case RemovedOutput():
            return _with_turn(state, output_message=turn.output_message.model_copy(update={"content": ""}))
        case RemovedAnswer(step=index, call_id=call_id):
            return _with_turn(state, steps=_with_step(turn, index, _without_answer(turn.steps[index], call_id)))
    return _edited(state, removed)


def _edited(state: TurnState, removed: RemovedText | RemovedReasoning | RemovedCall) -> TurnState:
    index = removed.step
    step, trace = state.turn.steps[index], state.traces[index]
    assert isinstance(step, InferenceStep)  # noqa: S101 - only such steps have these items
    before = step.model_response
    after, reasoning = before, trace.reasoning
    match removed:
        case RemovedText(start=start, length=length):
            text = text_of(before.content)
            after = before.model_copy(update={"content": text[:start] + text[start + length :]})
        case RemovedReasoning(start=start, length=length):
            reasoning = reasoning[:start] + reasoning[start + length :]
        case RemovedCall(call_id=call_id):
            left = tuple(call for call in before.tool_calls if call.call_id != call_id)
            after = before.model_copy(update={"tool_calls": left})
    cuts = _cuts_without(step, trace, removed, after, reasoning)
    steps = _with_step(state.turn, index, step.model_copy(update={"model_response": after}))
    changes: dict[str, Any] = {"steps": tuple(_without_arguments(each, removed) for each in steps)}
    is_last = not any(isinstance(each, InferenceStep) for each in steps[index + 1 :])
    if is_last and (output := _shown(state.turn.output_message, before, after)) is not None:
        changes["output_message"] = output
    trace = trace.model_copy(update={"cuts": cuts, "reasoning": reasoning})
    traces = (*state.traces[:index], trace, *state.traces[index + 1 :])
    return _with_turn(state, **changes).model_copy(update={"traces": traces})


def _shown(shown: CompletionMessage, before: CompletionMessage, after: CompletionMessage) -> CompletionMessage | None:
    """Return the turn's output message without what its answer lost, None if it shows another answer."""
    is_same = (text_of(shown.content), _ids(shown.tool_calls)) == (text_of(before.content), _ids(before.tool_calls))
    return shown.model_copy(update={"content": after.content, "tool_calls": after.tool_calls}) if is_same else None


def _ids(calls: Iterable[ToolCall]) -> list[str]:
    return [call.call_id for call in calls]


def _without_arguments(step: Any, removed: Removed) -> Any:
    """Return the step; where it ran the removed call, that call without its arguments."""
    if not isinstance(removed, RemovedCall) or not isinstance(step, ToolExecutionStep):
        return step
    emptied = {"arguments": {}, "arguments_json": "{}"}
    calls = (call.model_copy(update=emptied) if call.call_id == removed.call_id else call for call in step.tool_calls)
    return step.model_copy(update={"tool_calls": tuple(calls)})


def _without_answer(step: Any, call_id: str) -> Any:
    """Return the step with a note in place of that answer."""
    deleted = {"content": DELETED, "metadata": {"deleted": True}}
    answers = (each.model_copy(update=deleted) if each.call_id == call_id else each for each in step.tool_responses)
    return step.model_copy(update={"tool_responses": tuple(answers)})


def _cuts_without(
    step: InferenceStep, trace: StepTrace, removed: Removed, after: CompletionMessage, reasoning: str
) -> str | None:
    """Return the cuts of the step's answer without the item, None if it had none."""
    if trace.cuts is None:
        return None
    before = step.model_response
    try:
        chunks = cut_again(trace.cuts, text_of(before.content), trace.reasoning, before.tool_calls)
    except ValueError:
        return None
    match removed:
        case RemovedText(start=start, length=length):
            chunks = _without_span(chunks, TextChunk, range(start, start + length))
        case RemovedReasoning(start=start, length=length):
            chunks = _without_span(chunks, ReasoningChunk, range(start, start + length))
        case RemovedCall(call_id=call_id):
            chunks = _without_call(chunks, call_id)
    return cuts_of(chunks, Inferred(message=after, usage=None, reasoning=reasoning))


def _without_span(chunks: Sequence[Chunk], kind: type[TextChunk] | type[ReasoningChunk], span: range) -> list[Chunk]:
    """Return the chunks without those of that kind in that span of its text; chunks do not cross its ends."""
    left: list[Chunk] = []
    at = 0
    for chunk in chunks:
        if not isinstance(chunk, kind):
            left.append(chunk)
            continue
        if at not in span:
            left.append(chunk)
        at += len(chunk.text)
    return left


def _without_call(chunks: Sequence[Chunk], call_id: str) -> list[Chunk]:
    left: list[Chunk] = []
    begun = [chunk for chunk in chunks if isinstance(chunk, CallBegun)]
    index = next((chunk.index for chunk in begun if chunk.call_id == call_id), len(chunks))
    for chunk in chunks:
        if not isinstance(chunk, CallBegun | ArgumentsChunk):
            left.append(chunk)
        elif chunk.index != index:
            number = chunk.index - (chunk.index > index)
            again = CallBegun(number, chunk.call_id, chunk.name) if isinstance(chunk, CallBegun) else None
            left.append(again or ArgumentsChunk(number, getattr(chunk, "text", "")))
    return left


def _with_step(turn: Turn, index: int, step: Any) -> tuple[Any, ...]:
    return (*turn.steps[:index], step, *turn.steps[index + 1 :])


def _with_turn(state: TurnState, **changes: Any) -> TurnState:
    fields: Mapping[str, Any] = changes
    return state.model_copy(update={"turn": state.turn.model_copy(update=fields)})


def with_entry(segments: Sequence[Segment], entry: Entry) -> tuple[Segment, ...]:
    """Return the segment that has the entry's turn, with this entry in place of it; empty if no segment has it."""
    for segment in reversed(segments):
        entries = tuple(entry if each.order == entry.order else each for each in segment.entries)
        if any(each is entry for each in entries):
            return (segment.model_copy(update={"entries": entries}),)
    return ()
