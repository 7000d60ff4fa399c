"""Chat completions on OpenAI's wire: replies and streams.

Source: the OpenAI API reference: a stream ends with `[DONE]`, a failure in it is a chunk with an error. The clients of
Llama Stack, all of them, take `[DONE]` for broken JSON; for them the stream simply ends.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema
from pydantic_core import to_json

from turnstone.dialects.openai.errors import openai_error
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import Inferred, TokenLikelihood
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import Frozen

FinishReason = Literal["stop", "length", "tool_calls"]
RATED = {
    "token": {"type": "string"},
    "logprob": {"type": "number"},
    "bytes": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
}
RATED_MOST_LIKELY = {"type": "array", "items": {"type": "object", "properties": RATED, "required": [*RATED]}}
RATED_TOKEN = {
    "type": "object",
    "properties": {**RATED, "top_logprobs": RATED_MOST_LIKELY},
    "required": [*RATED, "top_logprobs"],
}
# written unchecked: validating a hundred thousand of them again takes long, and the dataclass validator, time to load
RatedTokens = Annotated[tuple[Any, ...], WithJsonSchema({"type": "array", "items": RATED_TOKEN})]
DONE = b"data: [DONE]\n\n"


class CalledFunction(Frozen):
    name: str
    arguments: str


class MadeCall(Frozen):
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class StreamedCall(MadeCall):
    index: int


def _is_none(value: object) -> bool:
    return value is None


class AssistantMessage(Frozen):
    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    tool_calls: tuple[MadeCall, ...] | None = Field(default=None, exclude_if=_is_none)


class ChoiceLogprobs(Frozen):
    content: RatedTokens
    refusal: None = None


class Choice(Frozen):
    index: Literal[0] = 0
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None = None
    finish_reason: FinishReason


class CompletionUsage(Frozen):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


USAGE_FIELDS = set(CompletionUsage.model_fields)


class ChatCompletion(Frozen):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: CompletionUsage | None


class Delta(Frozen):
    role: Literal["assistant"] | None = Field(default=None, exclude_if=_is_none)
    content: str | None = Field(default=None, exclude_if=_is_none)
    tool_calls: tuple[StreamedCall, ...] | None = Field(default=None, exclude_if=_is_none)


class ChunkChoice(Frozen):
    index: Literal[0] = 0
    delta: Delta
    logprobs: ChoiceLogprobs | None = None
    finish_reason: FinishReason | None = None


class ChatCompletionChunk(Frozen):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | None = None


class ChatCompletionEncoder:
    """Encodes the answers to one request, and the events of one."""

    def __init__(
        self,
        model: str,
        answer_id: str,
        requested_at: datetime,
        *,
        includes_usage: bool = False,
        ends_with_done: bool = True,
    ) -> None:
        """Take the fields common to all parts of the answer, and the end of its stream."""
        self._named = {"id": f"chatcmpl-{answer_id}", "created": int(requested_at.timestamp()), "model": model}
        self._includes_usage = includes_usage
        self._ends_with_done = ends_with_done

    @property
    def completion_id(self) -> str:
        return str(self._named["id"])

    def whole(self, answer: Inferred) -> bytes:
        answered = answer.message
        calls = tuple(MadeCall(**_called(call)) for call in answered.tool_calls) or None
        text = text_of(answered.content)
        message = AssistantMessage(content=text or None if calls else text, tool_calls=calls)
        choice = Choice(message=message, logprobs=_logprobs(answer.logprobs), finish_reason=_finish_reason(answered))
        return ChatCompletion(**self._named, choices=(choice,), usage=_usage(answer)).model_dump_json().encode()

    def begun(self) -> bytes:
        return self._chunk(Delta(role="assistant", content=""))

    def encoded(self, text: str, logprobs: tuple[TokenLikelihood, ...] = (), /) -> bytes:
        return self._chunk(Delta(content=text), logprobs=_logprobs(logprobs))

    def ended(self, answer: Inferred) -> bytes:
        return b"".join(self._ending(answer))

    def failed(self, message: str, code: ErrorCode) -> bytes:
        return b"data: " + to_json(openai_error(500, message, code)) + b"\n\n"

    def _ending(self, answer: Inferred) -> Iterator[bytes]:
        answered = answer.message
        if answered.tool_calls:
            calls = (StreamedCall(index=index, **_called(call)) for index, call in enumerate(answered.tool_calls))
            yield self._chunk(Delta(tool_calls=tuple(calls)))
        yield self._chunk(Delta(), _finish_reason(answered))
        if self._includes_usage:
            yield _data(ChatCompletionChunk(**self._named, choices=(), usage=_usage(answer)))
        if self._ends_with_done:
            yield DONE

    def _chunk(
        self, delta: Delta, finish_reason: FinishReason | None = None, logprobs: ChoiceLogprobs | None = None
    ) -> bytes:
        choice = ChunkChoice(delta=delta, logprobs=logprobs, finish_reason=finish_reason)
        return _data(ChatCompletionChunk(**self._named, choices=(choice,)))


def _data(chunk: ChatCompletionChunk) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


def _called(call: ToolCall) -> dict[str, object]:
    """Return the call with the model's unchanged arguments, whether JSON or not."""
    written = call.arguments_json
    if written is None:
        written = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments).decode()
    return {"id": call.call_id, "function": CalledFunction(name=call.tool_name, arguments=written)}


def _logprobs(logprobs: tuple[TokenLikelihood, ...]) -> ChoiceLogprobs | None:
    return ChoiceLogprobs(content=logprobs) if logprobs else None


def _finish_reason(message: CompletionMessage) -> FinishReason:
    if message.stop_reason == "out_of_tokens":
        return "length"
    return "tool_calls" if message.tool_calls else "stop"


def _usage(answer: Inferred) -> CompletionUsage | None:
    return None if answer.usage is None else CompletionUsage(**answer.usage.model_dump(include=USAGE_FIELDS))
