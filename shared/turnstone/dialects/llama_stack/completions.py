"""Text completions on the Llama Stack wire: the request body, the answer, and its events.

Source: the types of `llama-stack-client` 0.2.12, where an event has `content`; servers of Llama Stack send `delta`,
and applications read that. An event has both. A failure once a stream has begun is an error chunk.
"""

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_core import to_json

from turnstone.dialects.llama_stack.inference_replies import Metric, metrics_of
from turnstone.dialects.llama_stack.inference_requests import refuse
from turnstone.domain.agents.agents import AgentConfig, ResponseFormat, SamplingParams
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.messages.messages import StopReason
from turnstone.domain.models.inference import Continuations, Continued, TextsToContinue
from turnstone.domain.models.requests import TokenLikelihood
from turnstone.domain.values.content import Content, ImageItem, items_of, text_of
from turnstone.domain.values.frozen import Frozen, NullMeansDefault
from turnstone.domain.values.numbers import Flag

METRICS = Annotated[
    tuple[Metric, ...] | None,
    Field(
        description="The tokens used; null where the provider reports none.",
        examples=[[{"metric": "total_tokens", "value": 9, "unit": "tokens"}]],
    ),
]
NO_LOGPROBS = Field(description="Always null.", examples=[None])


class InferCompletion(NullMeansDefault):
    """A text for a model to continue."""

    model_id: Annotated[str, Field(description="The model that continues the text.", examples=["llama3.2:3b"])]
    content: Annotated[
        Content,
        Field(description="The text. With images it is a message of a chat.", examples=["Once upon a time"]),
    ]
    sampling_params: Annotated[
        SamplingParams,
        Field(
            description="How the model chooses words.", examples=[{"strategy": {"type": "greedy"}, "max_tokens": 100}]
        ),
    ] = SamplingParams()
    response_format: Annotated[
        ResponseFormat | None,
        Field(
            description="What form the answer must have; the text is then a message of a chat.",
            examples=[{"type": "json_schema", "json_schema": {"type": "object"}}],
        ),
    ] = None
    stream: Annotated[Flag, Field(description="Whether to answer in server-sent events.", examples=[False])] = False
    logprobs: Annotated[None, Field(description="No log probabilities are answered.", examples=[None])] = None

    @field_validator("logprobs", mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any) -> Any:
        return refuse(value, "logprobs")

    def to_texts(self) -> TextsToContinue:
        config = AgentConfig(
            model=self.model_id,
            instructions="",
            sampling_params=self.sampling_params,
            response_format=self.response_format,
        )
        has_images = any(isinstance(item, ImageItem) for item in items_of(self.content))
        return TextsToContinue((self.content if has_images else text_of(self.content),), config)


class CompletionResponse(Frozen):
    """A continuation."""

    content: Annotated[str, Field(description="The continuation.", examples=[", there was a server."])]
    stop_reason: Annotated[StopReason, Field(description="Why it ended.", examples=["end_of_turn"])]
    logprobs: Annotated[None, NO_LOGPROBS] = None
    metrics: METRICS = None


class CompletionChunk(Frozen):
    """Some more of a continuation."""

    delta: Annotated[str, Field(description="Some more of the text.", examples=[" there"])]
    content: Annotated[str, Field(description="The same.", examples=[" there"])]
    stop_reason: Annotated[
        StopReason | None, Field(description="Why it ended; null while it has not.", examples=["end_of_turn"])
    ] = None
    logprobs: Annotated[None, NO_LOGPROBS] = None
    metrics: METRICS = None


class InferCompletionEncoder:
    """Encodes the continuation of one text, and its events."""

    def whole(self, answer: Continuations) -> bytes:
        (only,) = answer.answers
        message = only.message
        reply = CompletionResponse(
            content=text_of(message.content), stop_reason=message.stop_reason, metrics=metrics_of(only.usage)
        )
        return reply.model_dump_json().encode()

    def begun(self) -> bytes:
        return b""

    def encoded(self, part: str | Continued, _: tuple[TokenLikelihood, ...] = (), /) -> bytes:
        return _data(CompletionChunk(delta=part, content=part)) if isinstance(part, str) else b""

    def ended(self, answer: Continuations) -> bytes:
        (only,) = answer.answers
        end = {"stop_reason": only.message.stop_reason, "metrics": metrics_of(only.usage)}
        return _data(CompletionChunk(delta="", content="", **end))

    def failed(self, message: str, code: ErrorCode) -> bytes:
        return b"data: " + to_json({"error": {"message": message, "code": code}}) + b"\n\n"


def _data(chunk: CompletionChunk) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"
