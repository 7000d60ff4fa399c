"""What a model answers directly, on OpenAI's wire.

Source: the OpenAI API reference: a stream ends with `[DONE]`, a failure in it is a chunk with an error. The clients of
Llama Stack, all of them, take `[DONE]` for broken JSON; they are done when the stream is.
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
# written as they are: to check a hundred thousand of them again takes long, and what checks dataclasses, time to load
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
    """Answers to one question, and the events of one."""

    def __init__(
        self, model: str, answer_id: str, asked_at: datetime, *, tells_usage: bool = False, says_done: bool = True
    ) -> None:
        """Take what all that is told of the answer holds, and how a stream of it ends."""
        self._named = {"id": f"chatcmpl-{answer_id}", "created": int(asked_at.timestamp()), "model": model}
        self._tells_usage = tells_usage
        self._says_done = says_done

    @property
    def completion_id(self) -> str:
        return str(self._named["id"])

    def whole(self, answer: Inferred) -> bytes:
        said = answer.message
        calls = tuple(MadeCall(**_called(call)) for call in said.tool_calls) or None
        text = text_of(said.content)
        message = AssistantMessage(content=text or None if calls else text, tool_calls=calls)
        choice = Choice(message=message, logprobs=_logprobs(answer.logprobs), finish_reason=_finish_reason(said))
        return ChatCompletion(**self._named, choices=(choice,), usage=_usage(answer)).model_dump_json().encode()

    def begun(self) -> bytes:
        return self._chunk(Delta(role="assistant", content=""))

    def said(self, text: str, logprobs: tuple[TokenLikelihood, ...] = (), /) -> bytes:
        return self._chunk(Delta(content=text), logprobs=_logprobs(logprobs))

    def ended(self, answer: Inferred) -> bytes:
        return b"".join(self._ending(answer))

    def failed(self, message: str, code: ErrorCode) -> bytes:
        return b"data: " + to_json(openai_error(500, message, code)) + b"\n\n"

    def _ending(self, answer: Inferred) -> Iterator[bytes]:
        said = answer.message
        if said.tool_calls:
            calls = (StreamedCall(index=index, **_called(call)) for index, call in enumerate(said.tool_calls))
            yield self._chunk(Delta(tool_calls=tuple(calls)))
        yield self._chunk(Delta(), _finish_reason(said))
        if self._tells_usage:
            yield _data(ChatCompletionChunk(**self._named, choices=(), usage=_usage(answer)))
        if self._says_done:
            yield DONE

    def _chunk(
        self, delta: Delta, finish_reason: FinishReason | None = None, logprobs: ChoiceLogprobs | None = None
    ) -> bytes:
        choice = ChunkChoice(delta=delta, logprobs=logprobs, finish_reason=finish_reason)
        return _data(ChatCompletionChunk(**self._named, choices=(choice,)))


def _data(chunk: ChatCompletionChunk) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


def _called(call: ToolCall) -> dict[str, object]:
    """Return the call with the arguments as the model wrote them, be they JSON or not."""
    written = call.arguments_json
    if written is None:
        written = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments).decode()
    return {"id": call.call_id, "function": CalledFunction(name=call.tool_name, arguments=written)}


def _logprobs(logprobs: tuple[TokenLikelihood, ...]) -> ChoiceLogprobs | None:
    return ChoiceLogprobs(content=logprobs) if logprobs else None


def _finish_reason(said: CompletionMessage) -> FinishReason:
    if said.stop_reason == "out_of_tokens":
        return "length"
    return "tool_calls" if said.tool_calls else "stop"


def _usage(answer: Inferred) -> CompletionUsage | None:
    return None if answer.usage is None else CompletionUsage(**answer.usage.model_dump(include=USAGE_FIELDS))
