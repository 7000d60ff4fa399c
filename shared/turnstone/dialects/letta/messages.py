"""Messages of Letta's API: the rows of turns, and what each row shows. Pure.

A row is a message of a turn: each message that was sent, each inference, each answer of a tool, and each automated
message by which the loop continued. An inference shows two messages under one id: its thoughts, and its call.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, RootModel
from pydantic_core import to_json

from turnstone.dialects.letta.ids import message_id
from turnstone.domain.agents.blocks import with_core_memory
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.messages.messages import Message, SystemMessage
from turnstone.domain.tools.tool_runs import SEND_NAME
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.loop_policies import CONTINUED, FAILED, LETTA, NEARLY_FULL, is_failed
from turnstone.domain.turns.turns import InferenceStep, Step, ToolExecutionStep, TurnState
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import Frozen

THOUGHTS = LETTA.loop_arguments[0]
ALERT_ROW = 0xFFFF  # after all others: a stream, which has no row of it, numbers the others alike
BETWEEN = "\n\n"  # the text of an answer and the thoughts of its call


def _is_none(value: Any) -> bool:
    return value is None


class SystemNote(Frozen):
    """A system message."""

    id: str
    date: datetime
    message_type: Literal["system_message"] = "system_message"
    message: str


class UserNote(Frozen):
    """A message of the user, or an automated one."""

    id: str
    date: datetime
    message_type: Literal["user_message"] = "user_message"
    message: str


class ReasoningNote(Frozen):
    """The thoughts of the model."""

    id: str
    date: datetime
    message_type: Literal["reasoning_message"] = "reasoning_message"
    reasoning: str


class CalledTool(Frozen):
    """A call: its arguments are a JSON text."""

    name: str
    arguments: str
    tool_call_id: str


class CalledPart(Frozen):
    """A part of a call: first its name and id, then parts of the JSON text of its arguments."""

    name: str | None = Field(default=None, exclude_if=_is_none)
    arguments: str | None = Field(default=None, exclude_if=_is_none)
    tool_call_id: str | None = Field(default=None, exclude_if=_is_none)


class ToolCallPart(Frozen):
    """A part of a call of a tool, in a stream of tokens."""

    id: str
    date: datetime
    message_type: Literal["tool_call_message"] = "tool_call_message"
    tool_call: CalledPart


class ToolCallNote(Frozen):
    """A call of a tool."""

    id: str
    date: datetime
    message_type: Literal["tool_call_message"] = "tool_call_message"
    tool_call: CalledTool


class ToolReturnNote(Frozen):
    """An answer of a tool."""

    id: str
    date: datetime
    message_type: Literal["tool_return_message"] = "tool_return_message"
    tool_return: str
    status: Literal["success", "error"]
    tool_call_id: str
    stdout: tuple[str, ...] | None = None
    stderr: tuple[str, ...] | None = None


class AssistantNote(Frozen):
    """A message to the user."""

    id: str
    date: datetime
    message_type: Literal["assistant_message"] = "assistant_message"
    assistant_message: str


Note = Annotated[
    SystemNote | UserNote | ReasoningNote | ToolCallNote | ToolReturnNote | AssistantNote,
    Field(discriminator="message_type"),
]


class Notes(RootModel[tuple[Note, ...]]):
    """Messages, oldest first."""


class LettaUsage(Frozen):
    """Tokens of a turn, summed over its inferences."""

    message_type: Literal["usage_statistics"] = "usage_statistics"
    completion_tokens: int = 0
    prompt_tokens: int = 0
    total_tokens: int = 0
    step_count: int = 0


class LettaResponse(Frozen):
    """The messages of a turn after those that were sent, and its usage."""

    messages: tuple[Note, ...]
    usage: LettaUsage


class AnswerTool(NamedTuple):
    """The tool and the argument whose calls are shown as messages to the user; none with an empty name."""

    name: str = SEND_NAME
    argument: str = "message"

    def text_in(self, call: ToolCall) -> str | None:
        """Return the message to the user that the call is, None for another call."""
        if not self.name or call.tool_name != self.name or isinstance(call.arguments, str):
            return None
        text = call.arguments.get(self.argument)
        return text if isinstance(text, str) else None


NO_ANSWER_TOOL = AnswerTool("")


class Row(NamedTuple):
    """A row, with the notes that show it.

    Attributes:
        is_input: whether it is a message that was sent, or an automated one.
        step_id: of the step that it is from, empty for an automated message, None for a message that was sent.
        call_id: of the call that it answers, None without one.
    """

    number: int
    notes: tuple[Note, ...]
    is_input: bool = False
    step_id: str | None = None
    call_id: str | None = None


class Rows:
    """The rows of one turn, step by step, in their order."""

    def __init__(self, turn_id: str, answers_by: AnswerTool, *, hides_answers: bool, is_automated: bool = True) -> None:
        """Begin with the first row.

        Args:
            hides_answers: whether the answer of the tool of the messages to the user is not shown.
            is_automated: whether the loop adds a message before an inference that follows a tool.
        """
        self._turn_id = turn_id
        self._answers_by = answers_by
        self._hides_answers = hides_answers
        self._is_automated = is_automated
        self._next = 0
        self._added: str | None = None

    def skip(self, count: int) -> None:
        """Leave out so many rows."""
        self._next += count

    @property
    def next_inference(self) -> str:
        """The id of the row of the next inference."""
        return message_id(self._turn_id, self._next + (self._added is not None))

    def of_input(self, messages: Sequence[Message], at: datetime) -> Iterator[Row]:
        """Yield the rows of the messages that were sent."""
        for message in messages:
            number, shown = self._numbered()
            kind = SystemNote if isinstance(message, SystemMessage) else UserNote
            note = kind(id=shown, date=at, message=text_of(message.content))
            yield Row(number, (note,), is_input=True)

    def of_step(self, step: Step) -> Iterator[Row]:
        """Yield the rows of a step; an inference after a tool has the loop's automated message before it."""
        at = step.completed_at or step.started_at
        if at is None:
            return
        if isinstance(step, InferenceStep):
            if self._added is not None:
                number, shown = self._numbered()
                note = UserNote(id=shown, date=step.started_at or at, message=self._added)
                self._added = None
                yield Row(number, (note,), is_input=True, step_id="")
            yield self._of_inference(step, at)
        elif isinstance(step, ToolExecutionStep):
            for call, response in zip(step.tool_calls, step.tool_responses, strict=False):
                if self._is_automated:
                    self._added = text_of((FAILED if is_failed(response) else CONTINUED).content)
                yield self._of_answer(call, response, at)._replace(step_id=step.step_id, call_id=response.call_id)

    def _of_inference(self, step: InferenceStep, at: datetime) -> Row:
        number, shown = self._numbered()
        answer = step.model_response
        notes: list[Note] = []
        calls = answer.tool_calls
        thoughts = next((thoughts_in(call) for call in calls if thoughts_in(call)), "")
        text = text_of(answer.content)
        reasoning = BETWEEN.join(filter(None, (text if text.strip() else "", thoughts)))
        if reasoning:
            notes.append(ReasoningNote(id=shown, date=at, reasoning=reasoning))
        for call in calls:
            answer_text = self._answers_by.text_in(call)
            if answer_text is not None:
                notes.append(AssistantNote(id=shown, date=at, assistant_message=answer_text))
            else:
                notes.append(ToolCallNote(id=shown, date=at, tool_call=called(call)))
        return Row(number, tuple(notes), step_id=step.step_id)

    def _of_answer(self, call: ToolCall, response: ToolResponse, at: datetime) -> Row:
        number, shown = self._numbered()
        is_error = is_failed(response)
        if self._hides_answers and not is_error and self._answers_by.text_in(call) is not None:
            return Row(number, ())
        note = ToolReturnNote(
            id=shown,
            date=at,
            tool_return=text_of(response.content),
            status="error" if is_error else "success",
            tool_call_id=response.call_id,
            stdout=_printed(response, "stdout"),
            stderr=_printed(response, "stderr"),
        )
        return Row(number, (note,))

    def _numbered(self) -> tuple[int, str]:
        number = self._next
        self._next += 1
        return number, message_id(self._turn_id, number)


def _printed(response: ToolResponse, name: str) -> tuple[str, ...] | None:
    """Return the output of a tool of Python, None for another tool."""
    found = (response.metadata or {}).get(name)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        return None
    return tuple(found)


def rows_of(state: TurnState, answers_by: AnswerTool, *, hides_answers: bool = False) -> tuple[Row, ...]:
    """Return the rows of the turn so far."""
    is_automated = state.policy.ends_after == "call"
    rows = Rows(state.turn_id, answers_by, hides_answers=hides_answers, is_automated=is_automated)
    found = list(rows.of_input(state.turn.input_messages, state.turn.started_at))
    alert: Row | None = None
    for step, trace in zip_longest(state.turn.steps, state.traces):
        if alert is not None and isinstance(step, InferenceStep):
            found.append(alert)
            alert = None
        found += rows.of_step(step)
        if trace is not None and trace.has_alert:
            alert = _alert(state.turn_id, step.completed_at or state.turn.started_at)
    return (*found, *filter(None, (alert,)))


def _alert(turn_id: str, at: datetime) -> Row:
    """Return the row of the alert that the context window is nearly full; a turn has one at most."""
    note = UserNote(id=message_id(turn_id, ALERT_ROW), date=at, message=text_of(NEARLY_FULL.content))
    return Row(ALERT_ROW, (note,), is_input=True, step_id="")


def system_row(agent: LettaAgent) -> Row:
    """Return the agent's system message with its memory as it is now: the oldest row."""
    text = with_core_memory(agent.config.instructions, agent.blocks)
    note = SystemNote(id=message_id(agent.agent_id, 0), date=agent.created_at, message=text)
    return Row(0, (note,))


def response_of(state: TurnState, answers_by: AnswerTool) -> LettaResponse:
    """Return the answer to a request whose turn has ended."""
    rows = rows_of(state, answers_by, hides_answers=True)
    notes = (note for row in rows if not row.is_input for note in row.notes)
    return LettaResponse(messages=tuple(notes), usage=usage_of(state))


def usage_of(state: TurnState) -> LettaUsage:
    """Return the tokens of the turn."""
    used = [trace.usage for trace in state.traces if trace.usage is not None]
    return LettaUsage(
        completion_tokens=sum(each.completion_tokens for each in used),
        prompt_tokens=sum(each.prompt_tokens for each in used),
        total_tokens=sum(each.total_tokens for each in used),
        step_count=state.inference_count,
    )


def thoughts_in(call: ToolCall) -> str:
    """Return the thoughts among the arguments of a call, empty without any."""
    given = None if isinstance(call.arguments, str) else call.arguments.get(THOUGHTS)
    return given if isinstance(given, str) else ""


def called(call: ToolCall) -> CalledTool:
    """Return the call as the API shows it, without the thoughts."""
    arguments: Any = call.arguments
    if not isinstance(arguments, str):
        arguments = to_json({name: value for name, value in arguments.items() if name != THOUGHTS}).decode()
    return CalledTool(name=call.tool_name, arguments=arguments, tool_call_id=call.call_id)
