"""Edits of the messages of an ended turn. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.turns import InferenceStep, Step, ToolExecutionStep, TurnState


class InputEdit(NamedTuple):
    """Another text of a message that was sent."""

    number: int
    text: str


class AnswerEdit(NamedTuple):
    """Another text of the answer of a tool."""

    step_id: str
    call_id: str
    text: str


class InferenceEdit(NamedTuple):
    """Another answer of the model: its text, and calls in place of those with their ids."""

    step_id: str
    text: str
    calls: Mapping[str, ToolCall]


Edit = InputEdit | AnswerEdit | InferenceEdit


def edited(state: TurnState, edit: Edit) -> TurnState:
    """Return the ended turn with the edit; the parts in which an edited answer was streamed are forgotten."""
    if isinstance(edit, InputEdit):
        messages = list(state.turn.input_messages)
        messages[edit.number] = messages[edit.number].model_copy(update={"content": edit.text})
        return _with_turn(state, input_messages=tuple(messages))
    steps = tuple(_edited_step(step, edit) for step in state.turn.steps)
    traces = tuple(
        trace.model_copy(update={"cuts": None}) if after is not before and trace.cuts is not None else trace
        for trace, before, after in zip(state.traces, state.turn.steps, steps, strict=True)
    )
    return _with_turn(state, steps=steps).model_copy(update={"traces": traces})


def _edited_step(step: Step, edit: AnswerEdit | InferenceEdit) -> Step:
    match step, edit:
        case ToolExecutionStep(), AnswerEdit() if step.step_id == edit.step_id:
            answers = (
                each.model_copy(update={"content": edit.text}) if each.call_id == edit.call_id else each
                for each in step.tool_responses
            )
            return step.model_copy(update={"tool_responses": tuple(answers)})
        case ToolExecutionStep(), InferenceEdit() if any(call.call_id in edit.calls for call in step.tool_calls):
            return step.model_copy(update={"tool_calls": _replaced(step.tool_calls, edit.calls)})
        case InferenceStep(), InferenceEdit() if step.step_id == edit.step_id:
            calls = _replaced(step.model_response.tool_calls, edit.calls)
            answer = step.model_response.model_copy(update={"content": edit.text, "tool_calls": calls})
            return step.model_copy(update={"model_response": answer})
        case _:
            return step


def _replaced(calls: tuple[ToolCall, ...], by_id: Mapping[str, ToolCall]) -> tuple[ToolCall, ...]:
    return tuple(by_id.get(call.call_id, call) for call in calls)


def _with_turn(state: TurnState, **changes: Any) -> TurnState:
    return state.model_copy(update={"turn": state.turn.model_copy(update=changes)})
