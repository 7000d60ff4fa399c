"""Direct answers of a model on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.2.12; a failure once a stream has begun is an error chunk.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.messages.messages import CompletionMessage, StopReason
from turnstone.domain.models.requests import Embedded, Inferred, TokenLikelihood
from turnstone.domain.turns.events import StepDelta, TextDelta, ToolCallDelta, call_delta
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.frozen import Frozen


class Metric(Frozen):
    metric: str
    value: int
    unit: str | None = "tokens"


class ChatCompletionResponse(Frozen):
    completion_message: CompletionMessage
    logprobs: None = None
    metrics: tuple[Metric, ...] | None = None


class ChatCompletionEvent(Frozen):
    event_type: Literal["start", "progress", "complete"]
    delta: StepDelta
    logprobs: None = None
    stop_reason: StopReason | None = None


class ChatCompletionStreamChunk(Frozen):
    event: ChatCompletionEvent
    metrics: tuple[Metric, ...] | None = None


class EmbeddingsResponse(Frozen):
    embeddings: tuple[tuple[float, ...], ...]


class InferChatCompletionEncoder:
    """Encodes answers, and the events of one."""

    def whole(self, answer: Inferred) -> bytes:
        message = answer.message.model_copy(update={"stop_reason": _stop_reason(answer.message)})
        reply = ChatCompletionResponse(completion_message=message, metrics=metrics_of(answer.usage))
        return reply.model_dump_json().encode()

    def begun(self) -> bytes:
        return _event("start", TextDelta(text=""))

    def encoded(self, text: str, _: tuple[TokenLikelihood, ...] = (), /) -> bytes:
        return _event("progress", TextDelta(text=text))

    def ended(self, answer: Inferred) -> bytes:
        """Return the calls, each whole, and the end."""
        calls = (_event("progress", call_delta(call)) for call in answer.message.tool_calls)
        end = ChatCompletionEvent(
            event_type="complete", delta=TextDelta(text=""), stop_reason=_stop_reason(answer.message)
        )
        chunk = ChatCompletionStreamChunk(event=end, metrics=metrics_of(answer.usage))
        return b"".join((*calls, _data(chunk)))

    def failed(self, message: str, code: ErrorCode) -> bytes:
        return b"data: " + to_json({"error": {"message": message, "code": code}}) + b"\n\n"


def embeddings_frame(embedded: Embedded) -> tuple[bytes, Iterator[bytes], bytes]:
    """Return the JSON of a reply before, between and after the vectors."""
    return before_entries({}, "embeddings"), map(to_json, embedded.vectors), after_entries({})


def _event(event_type: Literal["start", "progress"], delta: TextDelta | ToolCallDelta) -> bytes:
    return _data(ChatCompletionStreamChunk(event=ChatCompletionEvent(event_type=event_type, delta=delta)))


def _data(chunk: ChatCompletionStreamChunk) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


def _stop_reason(message: CompletionMessage) -> StopReason:
    """Return why the model stopped: with calls, its message is over and its turn is not."""
    is_calling = bool(message.tool_calls) and message.stop_reason == "end_of_turn"
    return "end_of_message" if is_calling else message.stop_reason


def metrics_of(usage: TokenUsage | None) -> tuple[Metric, ...] | None:
    if usage is None:
        return None
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return tuple(Metric(metric=name, value=getattr(usage, name)) for name in names)
