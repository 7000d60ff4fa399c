"""Messages in agent files: from turns, and to turns. A message of the user opens a turn."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import from_json

from turnstone.dialects.letta.messages import BETWEEN, called, thoughts_in
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.histories import PastAnswers, PastInference, PastTurn
from turnstone.domain.messages.messages import Message, SystemMessage, UserMessage
from turnstone.domain.tools.tools import ToolCall, ToolResponse, call_from_json
from turnstone.domain.turns.loop_policies import is_failed
from turnstone.domain.turns.turns import InferenceStep, ToolExecutionStep, TurnState
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import JsonObject, Many, NullMeansDefault

Role = Literal["system", "user", "assistant", "tool"]
AUTOMATED = ("heartbeat", "system_alert", "login")
OF_USER = "user_message"
WITHOUT_TEXT = ("redacted_reasoning", "omitted_reasoning")
MOST_CHARACTERS = 1_000_000
FIRST = datetime(1970, 1, 1, tzinfo=UTC)


class FileFunction(NullMeansDefault):
    """A called tool; the arguments are a JSON text."""

    name: str = Field(min_length=1, max_length=64)
    arguments: str = Field(default="{}", max_length=MOST_CHARACTERS)


class FileCall(NullMeansDefault):
    """A call of a tool."""

    id: str = Field(min_length=1, max_length=256)
    function: FileFunction


class FileReturn(NullMeansDefault):
    """How a tool ended."""

    status: Literal["success", "error"] = "success"


class FileMessage(NullMeansDefault):
    """A message."""

    role: Role
    content: str | Many[JsonObject] = ""
    tool_calls: Many[FileCall] = Field(default=(), max_length=100)
    tool_call_id: str | None = None
    name: str | None = None
    tool_returns: Many[FileReturn] = Field(default=(), max_length=100)
    created_at: datetime | None = None

    @model_validator(mode="after")
    def have_text(self) -> "FileMessage":
        """Raise ValueError for content that is no text."""
        if len(self.text) > MOST_CHARACTERS:
            raise ValueError(f"content: has more than {MOST_CHARACTERS} characters")
        return self

    @property
    def text(self) -> str:
        """The text of the content. Raises ValueError for content that is no text."""
        if isinstance(self.content, str):
            return self.content
        return BETWEEN.join(filter(None, map(_text_in, self.content)))

    @property
    def packed(self) -> JsonObject:
        """The object that the text is the JSON of, empty for any other text."""
        if not self.text.startswith("{"):
            return {}
        try:
            found = from_json(self.text, allow_inf_nan=False)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def file_messages(states: Iterable[TurnState], model: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of these turns, oldest first, without ids; automated ones are left out."""
    for state in states:
        for given in state.turn.input_messages:
            role = "system" if isinstance(given, SystemMessage) else "user"
            yield _row(role, text_of(given.content), state.turn.started_at)
        for step in state.turn.steps:
            at = step.completed_at or state.turn.started_at
            if isinstance(step, InferenceStep):
                yield {**_of_inference(step, at), "model": model}
            elif isinstance(step, ToolExecutionStep):
                yield from _of_answers(step, at)


def past_turns(rows: Sequence[FileMessage], now: datetime) -> tuple[PastTurn, ...]:
    """Return the turns of the messages; the first one is left out if it is the system prompt. Raises InvalidRequest."""
    turns: list[PastTurn] = []
    for index, row in enumerate(rows):
        if index == 0 and row.role == "system":
            continue
        at = _moment(row.created_at, now) if row.created_at else now
        if row.role in ("user", "system"):
            message = _opening(row)
            if message is not None:
                _add_opening(turns, message, at)
            continue
        if not turns:
            turns.append(PastTurn((), (), at))
        try:
            turns[-1] = _with_row(turns[-1], row, at)
        except ValueError as wrong:
            raise InvalidRequest(f"messages.{index}.{wrong}") from wrong
    return tuple(turns)


def _row(role: str, text: str, at: datetime) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "content": [{"type": "text", "text": text}],
        "name": None,
        "otid": None,
        "sender_id": None,
        "batch_item_id": None,
        "group_id": None,
        "model": None,
        "tool_calls": None,
        "tool_call_id": None,
        "tool_returns": None,
        "created_at": at.isoformat(),
    }


def _of_inference(step: InferenceStep, at: datetime) -> dict[str, Any]:
    answer = step.model_response
    thoughts = next(filter(None, map(thoughts_in, answer.tool_calls)), "")
    text = text_of(answer.content)
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.tool_name, "arguments": called(call).arguments},
        }
        for call in answer.tool_calls
    ]
    return {**_row("assistant", BETWEEN.join(filter(None, (text, thoughts))), at), "tool_calls": calls or None}


def _of_answers(step: ToolExecutionStep, at: datetime) -> Iterator[dict[str, Any]]:
    for response in step.tool_responses:
        status = "error" if is_failed(response) else "success"
        yield {
            **_row("tool", text_of(response.content), at),
            "name": response.tool_name,
            "tool_call_id": response.call_id,
            "tool_returns": [{"status": status, "stdout": None, "stderr": None}],
        }


def _opening(row: FileMessage) -> Message | None:
    """Return the message that opens a turn, None for an automated one."""
    kind = row.packed.get("type")
    if row.role == "user" and kind in AUTOMATED:
        return None
    packed = row.packed.get("message")
    text = packed if row.role == "user" and kind == OF_USER and isinstance(packed, str) else row.text
    return SystemMessage(content=text) if row.role == "system" else UserMessage(content=text)


def _add_opening(turns: list[PastTurn], message: Message, at: datetime) -> None:
    """Add the message to the last turn if that has no answer yet, else as a turn of its own."""
    if turns and not turns[-1].steps:
        turns[-1] = turns[-1]._replace(messages=(*turns[-1].messages, message))
    else:
        turns.append(PastTurn((message,), (), at))


def _with_row(turn: PastTurn, row: FileMessage, at: datetime) -> PastTurn:
    """Return the turn with an answer of the model or of a tool. Raises ValueError for an answer without a call."""
    if row.role == "assistant":
        calls = (call_from_json(each.id, each.function.name, each.function.arguments) for each in row.tool_calls)
        return turn._replace(steps=(*turn.steps, PastInference(row.text, tuple(calls), at)))
    call = next((call for call in _open_calls(turn) if call.call_id == row.tool_call_id), None)
    if call is None:
        raise ValueError("tool_call_id: no call before it has this id, or it is answered already")
    packed = row.packed if {"status", "message"} <= row.packed.keys() else {}
    text = packed.get("message", row.text)
    is_error = any(each.status == "error" for each in row.tool_returns)
    is_error = is_error or packed.get("status") not in (None, "OK")
    answer = ToolResponse(
        call_id=call.call_id,
        tool_name=call.tool_name,
        content=text if isinstance(text, str) else row.text,
        metadata={"error": True} if is_error else None,
    )
    last = turn.steps[-1]
    if isinstance(last, PastAnswers):
        joined = PastAnswers((*last.calls, call), (*last.answers, answer), at)
        return turn._replace(steps=(*turn.steps[:-1], joined))
    return turn._replace(steps=(*turn.steps, PastAnswers((call,), (answer,), at)))


def _open_calls(turn: PastTurn) -> tuple[ToolCall, ...]:
    """Return the calls of the last inference that have no answer yet."""
    answered: set[str] = set()
    for step in reversed(turn.steps):
        if isinstance(step, PastInference):
            return tuple(call for call in step.calls if call.call_id not in answered)
        answered.update(call.call_id for call in step.calls)
    return ()


def _text_in(part: JsonObject) -> str:
    kind = part.get("type", "text")
    if kind in WITHOUT_TEXT:
        return ""
    text = part.get({"text": "text", "reasoning": "reasoning"}.get(str(kind), ""))
    if not isinstance(text, str):
        raise ValueError(f"content: this server reads texts alone, not the type {str(kind)[:50]!r}")
    return text


def _moment(at: datetime, now: datetime) -> datetime:
    """Return the time, at least that of the first possible id and at most the present."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(max(aware, FIRST), now).astimezone(UTC)
