"""Edits of messages in Letta's API: another text, or other arguments of a call."""

from datetime import datetime
from typing import Any, Literal

from pydantic_core import to_json

from turnstone.dialects.letta.ids import message_id
from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, THOUGHTS, Row, rows_of, thoughts_in
from turnstone.dialects.letta.overview.message_objects import MessageObject, objects_of
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.letta.edits import AnswerEdit, Edit, InferenceEdit, InputEdit
from turnstone.domain.messages.messages import CompletionMessage, SystemMessage
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.turns.turns import InferenceStep, ToolExecutionStep, TurnState
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import Many, NullMeansDefault

Role = Literal["user", "system", "assistant", "tool"]


class LettaFunction(NullMeansDefault):
    """A called tool; the arguments are a JSON text."""

    name: str
    arguments: str


class LettaCall(NullMeansDefault):
    """A call of a tool."""

    id: str
    type: Literal["function"] = "function"
    function: LettaFunction


class MessageUpdate(NullMeansDefault):
    """Changes of a message: null leaves a field as it is."""

    role: Role | None = None
    text: str | None = None
    name: str | None = None
    tool_calls: Many[LettaCall] | None = None
    tool_call_id: str | None = None


class StoredRow:
    """A row with what its turn holds of it."""

    def __init__(self, state: TurnState, row: Row) -> None:
        self.row = row
        self.step = next((step for step in state.turn.steps if step.step_id == row.step_id), None)
        self.input = state.turn.input_messages[row.number] if row.is_input and row.step_id is None else None

    @property
    def role(self) -> Role:
        if isinstance(self.step, InferenceStep):
            return "assistant"
        if isinstance(self.step, ToolExecutionStep):
            return "tool"
        return "system" if isinstance(self.input, SystemMessage) else "user"

    @property
    def answer(self) -> CompletionMessage | None:
        """The answer of the model, None for another row."""
        return self.step.model_response if isinstance(self.step, InferenceStep) else None

    @property
    def name(self) -> str | None:
        """The name of the tool that answered, None for another row."""
        responses = self.step.tool_responses if isinstance(self.step, ToolExecutionStep) else ()
        return next((each.tool_name for each in responses if each.call_id == self.row.call_id), None)

    @property
    def text(self) -> str:
        if self.answer is not None:
            thoughts = next(filter(None, map(thoughts_in, self.answer.tool_calls)), "")
            return thoughts or text_of(self.answer.content)
        if isinstance(self.step, ToolExecutionStep):
            return next(text_of(each.content) for each in self.step.tool_responses if each.call_id == self.row.call_id)
        return "" if self.input is None else text_of(self.input.content)


def edit_of(update: MessageUpdate, state: TurnState, number: int, text: str) -> Edit:
    """Return the edit of the row with that number; `text` is the id as sent. Raises NotFound, InvalidRequest."""
    stored = stored_row(state, number, text)
    if update.tool_calls is not None and stored.answer is None:
        raise InvalidRequest(f"tool_calls: only messages of the assistant have calls; {text!r} is of {stored.role}")
    if update.tool_call_id is not None and stored.role != "tool":
        raise InvalidRequest(f"tool_call_id: only messages of tools answer a call; {text!r} is of {stored.role}")
    kept = {"role": stored.role, "name": stored.name, "tool_call_id": stored.row.call_id}
    for name, own in kept.items():
        if getattr(update, name) not in (None, own):
            raise InvalidRequest(f"{name}: a message keeps its own, {own!r}; leave it out")
    new_text = stored.text if update.text is None else update.text
    if stored.answer is not None and stored.row.step_id is not None:
        return _inference_edit(stored.row.step_id, stored.answer, update)
    if stored.row.step_id is not None and stored.row.call_id is not None:
        return AnswerEdit(stored.row.step_id, stored.row.call_id, new_text)
    if stored.input is None:
        raise InvalidRequest(f"{text!r} is an automated message, which is not stored; edit another one")
    return InputEdit(number, new_text)


def stored_row(state: TurnState, number: int, text: str) -> StoredRow:
    """Return the row with that number. Raises NotFound."""
    row = next((each for each in rows_of(state, NO_ANSWER_TOOL) if each.number == number), None)
    if row is None:
        raise NotFound("message", text)
    return StoredRow(state, row)


def _inference_edit(step_id: str, answer: CompletionMessage, update: MessageUpdate) -> InferenceEdit:
    calls = {call.call_id: call for call in answer.tool_calls}
    if update.tool_calls is not None:
        sent = [(each.id, each.function.name) for each in update.tool_calls]
        if sent != [(call.call_id, call.tool_name) for call in answer.tool_calls]:
            raise InvalidRequest("tool_calls: must be the calls of the message, each with its id and name")
        calls |= {each.id: _with_thoughts(calls[each.id], each.function.arguments) for each in update.tool_calls}
    content = text_of(answer.content)
    if update.text is not None:
        thinking = next((call for call in answer.tool_calls if thoughts_in(call)), None)
        if thinking is None:
            content = update.text
        else:
            calls[thinking.call_id] = _with_argument(calls[thinking.call_id], update.text)
            content = ""
    return InferenceEdit(step_id, content, calls)


def _with_thoughts(call: ToolCall, arguments: str) -> ToolCall:
    """Return the call with these arguments, and its thoughts where they have none. Raises InvalidRequest."""
    changed = call_from_json(call.call_id, call.tool_name, arguments)
    if isinstance(changed.arguments, str):
        raise InvalidRequest(f"tool_calls: the arguments of {call.call_id!r} are no JSON object")
    thoughts = thoughts_in(call)
    return _with_argument(changed, thoughts) if thoughts and THOUGHTS not in changed.arguments else changed


def _with_argument(call: ToolCall, thoughts: str) -> ToolCall:
    if isinstance(call.arguments, str):
        return call
    arguments: dict[str, Any] = {THOUGHTS: thoughts, **{n: v for n, v in call.arguments.items() if n != THOUGHTS}}
    return call_from_json(call.call_id, call.tool_name, to_json(arguments).decode())


def message_object(agent: LettaAgent, tenant: str, state: TurnState, number: int, now: datetime) -> MessageObject:
    """Return the message as it is now. Raises NotFound."""
    text = message_id(state.turn_id, number)
    found = next((each for each in objects_of(state, agent, tenant) if each.id == text), None)
    if found is None:
        raise NotFound("message", text)
    return found.model_copy(update={"updated_at": now})
