"""OpenAI's completions: the request body, the answer, and its events.

Source: the OpenAI API reference, and the types of `llama-stack-client` 0.2.12 and 0.3.5. A chunk has the shape of a
whole answer. A stream ends with `[DONE]`, except for the clients of Llama Stack, which take it for broken JSON.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import to_json

from turnstone.dialects.openai.chat.chat_replies import DONE, USAGE_FIELDS, CompletionUsage
from turnstone.dialects.openai.chat.chat_requests import Penalty, Seed, StreamOptions
from turnstone.dialects.openai.errors import openai_error
from turnstone.dialects.openai.strict import OpenBody, refuse
from turnstone.domain.agents.agents import AgentConfig, Greedy, SamplingParams, Strategy, TopP
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.models.inference import Continuations, Continued, TextsToContinue
from turnstone.domain.models.requests import Inferred, TokenLikelihood
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import Frozen, Many
from turnstone.domain.values.numbers import Count, Flag

MAX_PROMPTS = 100
TOKENS = "send texts, not tokens: every model numbers tokens differently"
ONE = "this server gives one continuation a prompt; leave it out, or send 1"
LOGPROBS = "this server answers without log probabilities here; leave it out"
OF_CHATS = "is for chats; use POST /v1/openai/v1/chat/completions"
REFUSED = {
    "logprobs": LOGPROBS,
    "messages": OF_CHATS,
    "prompt_logprobs": LOGPROBS,
    "tool_choice": OF_CHATS,
    "tools": OF_CHATS,
}
# fields essential to the continuation, unless they are 0 or empty
NEEDED = ("frequency_penalty", "guided_choice", "logit_bias", "presence_penalty", "seed", "suffix")
PASSED_ON = (*NEEDED, "user")


class CreateCompletion(OpenBody):
    """One or more texts for a model to continue. Further fields are passed on to the provider."""

    model: Annotated[str, Field(description="The model that continues the text.", examples=["llama3.2:3b"])]
    prompt: Annotated[
        str | Annotated[Many[str], Field(min_length=1, max_length=MAX_PROMPTS)],
        Field(description="The text to continue, or several, each continued by itself.", examples=["Once upon a time"]),
    ]
    stream: Annotated[Flag, Field(description="Whether to answer in server-sent events.", examples=[False])] = False
    stream_options: Annotated[
        StreamOptions | None,
        Field(description="What a stream ends with.", examples=[{"include_usage": True}]),
    ] = None
    max_tokens: Annotated[
        Count | None, Field(description="Tokens of a continuation at most; the provider's default.", examples=[100])
    ] = None
    temperature: Annotated[
        Annotated[float, Field(ge=0, le=2, strict=True)] | None,
        Field(description="How much the model varies; 0 for not at all.", examples=[0.7]),
    ] = None
    top_p: Annotated[
        Annotated[float, Field(gt=0, le=1, strict=True)] | None,
        Field(description="The share of likely tokens to choose from.", examples=[0.9]),
    ] = None
    stop: Annotated[str | Many[str] | None, Field(description="Texts that end a continuation.", examples=[["\n"]])] = (
        None
    )
    echo: Annotated[
        Flag | None, Field(description="Whether a continuation begins with its prompt.", examples=[False])
    ] = None
    suffix: Annotated[
        str | None,
        Field(description="The text that follows the continuation, for models that fill in.", examples=[" The end."]),
    ] = None
    frequency_penalty: Annotated[
        Penalty | None, Field(description="How much frequent tokens are avoided.", examples=[0.5])
    ] = None
    presence_penalty: Annotated[
        Penalty | None, Field(description="How much tokens that came up are avoided.", examples=[0.5])
    ] = None
    logit_bias: Annotated[
        dict[str, Annotated[float, Field(strict=True)]] | None,
        Field(description="What to add to the likelihood of tokens.", examples=[{"50256": -100}]),
    ] = None
    seed: Annotated[
        Seed | None, Field(description="Makes an answer more likely to come out the same.", examples=[7])
    ] = None
    user: Annotated[str | None, Field(description="The end user, for the provider.", examples=["user-1"])] = None
    guided_choice: Annotated[
        Many[str] | None, Field(description="The only continuations there may be (vLLM).", examples=[["yes", "no"]])
    ] = None
    n: Annotated[Literal[1] | None, Field(description="1.", examples=[1])] = None
    best_of: Annotated[Literal[1] | None, Field(description="1.", examples=[1])] = None
    logprobs: Annotated[
        Literal[False] | None, Field(description="No log probabilities are answered.", examples=[False])
    ] = None
    prompt_logprobs: Annotated[None, Field(description="No log probabilities are answered.", examples=[None])] = None
    messages: Annotated[None, Field(description="For chats only.", examples=[None])] = None
    tools: Annotated[None, Field(description="For chats only.", examples=[None])] = None
    tool_choice: Annotated[None, Field(description="For chats only.", examples=[None])] = None

    @field_validator("prompt", mode="before")
    @classmethod
    def refuse_tokens(cls, value: Any) -> Any:
        if isinstance(value, list) and any(isinstance(part, int | list) for part in value[:1]):
            raise ValueError(TOKENS)
        return value

    @field_validator("n", "best_of", mode="before")
    @classmethod
    def refuse_several(cls, value: Any) -> Any:
        if value is not None and (value != 1 or isinstance(value, bool | float)):
            raise ValueError(ONE)
        return value

    @field_validator(*REFUSED, mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any, field: ValidationInfo) -> Any:
        return value if value is False and field.field_name == "logprobs" else refuse(value, field, REFUSED)

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: has no effect unless stream is true; leave it out")
        return self

    @property
    def prompts(self) -> tuple[str, ...]:
        return (self.prompt,) if isinstance(self.prompt, str) else self.prompt

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def to_texts(self) -> TextsToContinue:
        config = AgentConfig(model=self.model, instructions="", sampling_params=self._sampling())
        passed_on = self.model_dump(mode="json", exclude_none=True, include=set(PASSED_ON))
        needed = tuple(name for name in NEEDED if passed_on.get(name) or (name == "seed" and self.seed == 0))
        are_echoed = bool(self.echo and self.stream)
        return TextsToContinue(self.prompts, config, {**self.further, **passed_on}, needed, are_echoed)

    def _sampling(self) -> SamplingParams:
        """Return the sampling; an omitted field has the model's own default."""
        strategy: Strategy = TopP(temperature=self.temperature or None, top_p=self.top_p)
        if self.temperature == 0:
            strategy = Greedy()
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        return SamplingParams.model_construct(
            strategy=strategy, max_tokens=self.max_tokens or 0, repetition_penalty=1.0, stop=stop or None
        )


class CompletionChoice(Frozen):
    """The continuation of one prompt, or a piece of it."""

    index: Annotated[int, Field(description="Which prompt is continued, from 0 on.", examples=[0])]
    text: Annotated[str, Field(description="The continuation, or some more of it.", examples=[", there was a server"])]
    logprobs: Annotated[None, Field(description="Always null.", examples=[None])] = None
    finish_reason: Annotated[
        Literal["stop", "length"] | None,
        Field(description="Why it ended; null while it has not.", examples=["stop"]),
    ] = None


class Completion(Frozen):
    """Continuations of prompts."""

    id: Annotated[str, Field(description="Names the answer.", examples=["cmpl-01990000-0000-7000-8000-000000000000"])]
    object: Annotated[Literal["text_completion"], Field(description="What this is.", examples=["text_completion"])] = (
        "text_completion"
    )
    created: Annotated[int, Field(description="When it was requested, in seconds since 1970.", examples=[1767225600])]
    model: Annotated[str, Field(description="The requested model.", examples=["llama3.2:3b"])]
    choices: Annotated[
        tuple[CompletionChoice, ...],
        Field(
            description="One for each prompt.",
            examples=[[{"index": 0, "text": ", there was a server", "logprobs": None, "finish_reason": "stop"}]],
        ),
    ]
    usage: Annotated[
        CompletionUsage | None,
        Field(
            description="The tokens used; null where the provider reports none.",
            examples=[{"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}],
        ),
    ] = None


class CompletionEncoder:
    """Encodes continuations of the prompts of one request, and their events."""

    def __init__(
        self, body: CreateCompletion, answer_id: str, requested_at: datetime, *, ends_with_done: bool = True
    ) -> None:
        self._named = {"id": f"cmpl-{answer_id}", "created": int(requested_at.timestamp()), "model": body.model}
        # a stream carries them with the answer: it must not hold them while its client does not read
        self._echoes = body.prompts if body.echo and not body.stream else ("",) * len(body.prompts)
        self._includes_usage = body.includes_usage
        self._ends_with_done = ends_with_done
        self._index = 0

    def whole(self, answer: Continuations) -> bytes:
        choices = tuple(
            CompletionChoice(index=index, text=echo + text_of(each.message.content), finish_reason=_reason(each))
            for index, (echo, each) in enumerate(zip(self._echoes, answer.answers, strict=True))
        )
        return self._completion(choices, _usage(answer)).model_dump_json().encode()

    def begun(self) -> bytes:
        return b""

    def encoded(self, part: str | Continued, _: tuple[TokenLikelihood, ...] = (), /) -> bytes:
        if isinstance(part, str):
            return self._piece(part)
        end = self._piece("", _reason(part.answer))
        self._index += 1
        return end

    def ended(self, answer: Continuations) -> bytes:
        return b"".join(self._ending(answer))

    def failed(self, message: str, code: ErrorCode) -> bytes:
        return b"data: " + to_json(openai_error(500, message, code)) + b"\n\n"

    def _ending(self, answer: Continuations) -> Iterator[bytes]:
        if self._includes_usage:
            yield _data(self._completion((), _usage(answer)))
        if self._ends_with_done:
            yield DONE

    def _piece(self, text: str, finish_reason: Literal["stop", "length"] | None = None) -> bytes:
        choice = CompletionChoice(index=self._index, text=text, finish_reason=finish_reason)
        return _data(self._completion((choice,), None))

    def _completion(self, choices: tuple[CompletionChoice, ...], usage: CompletionUsage | None) -> Completion:
        return Completion(**self._named, choices=choices, usage=usage)


def _data(completion: Completion) -> bytes:
    return b"data: " + completion.model_dump_json().encode() + b"\n\n"


def _reason(answer: Inferred) -> Literal["stop", "length"]:
    return "length" if answer.message.stop_reason == "out_of_tokens" else "stop"


def _usage(answer: Continuations) -> CompletionUsage | None:
    usage = answer.usage
    return None if usage is None else CompletionUsage(**usage.model_dump(include=USAGE_FIELDS))
