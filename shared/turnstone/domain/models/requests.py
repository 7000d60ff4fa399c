"""Requests to models, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:  # what they consist of was loaded where it was made
    from turnstone.domain.agents.agents import ResponseFormat, SamplingParams, SystemMessageBehavior, ToolPromptFormat
    from turnstone.domain.messages.messages import CompletionMessage, Message
    from turnstone.domain.models.routing import Target
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.domain.usage.usage import TokenUsage
    from turnstone.domain.values.cancellation import StopSignal


class InferenceRequest(NamedTuple):
    """One question to a model.

    Attributes:
        model: the name its provider knows; where `targets` are told, the name the agent uses.
        tool_choice: auto, required, none or a tool's name.
        sampling: None for the model's defaults.
        tool_prompt_format: how tools are told to a model that is not offered them in its provider's own form.
        system_message_behavior: append what such a model is told to the system message, or replace it by that message.
        targets: who is asked, in this order; none: the one who is asked.
        provider_data: the caller's own keys, for this question only.
        extras: what only servers of OpenAI's API take, in its words; it goes before what the other fields say.
        message_extras: likewise fields of a message, by its place.
        tool_extras: likewise fields of a tool, by its name.
        prompt: a text to continue, where its provider has a way to; `messages` say it as one message to all others.
        stop: cancels the request: an adapter that waits for a silent model then fails at once.
        about: ids of the turn that the request belongs to, for the log.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDef, ...] = ()
    tool_choice: str = "auto"
    sampling: SamplingParams | None = None
    response_format: ResponseFormat | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    system_message_behavior: SystemMessageBehavior = "append"
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    extras: Mapping[str, Any] = MappingProxyType({})
    message_extras: Mapping[int, Mapping[str, Any]] = MappingProxyType({})
    tool_extras: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    prompt: str | None = None
    stop: StopSignal | None = None
    about: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Likelihood:
    """How likely a model found a token: the logarithm of its probability, and its bytes where they are known.

    A long answer has a hundred thousand of them, so they are kept small.
    """

    token: str
    logprob: float
    bytes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TokenLikelihood(Likelihood):
    """How likely it found a token that it answered with, and those that it found most likely in its place."""

    top_logprobs: tuple[Likelihood, ...]


class TextChunk(NamedTuple):
    """Some more of the answer's text; it may be empty where there are logprobs, which the extras asked for."""

    text: str
    logprobs: tuple[TokenLikelihood, ...] = ()


class Inferred(NamedTuple):
    """The whole answer: the text of all chunks, and calls whose ids differ.

    Attributes:
        usage: None if none was reported.
        answered_by: the target that answered, where there was a choice.
        logprobs: those of all chunks.
    """

    message: CompletionMessage
    usage: TokenUsage | None = None
    answered_by: Target | None = None
    logprobs: tuple[TokenLikelihood, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vector of each text, in the order of the texts, and the tokens they had; None if nobody counted."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to make vectors of.

    Attributes:
        model: as of an `InferenceRequest`; its targets and provider data likewise.
        dimensions: how long the vectors shall be, None for as long as the model makes them.
        extras: what only servers of OpenAI's API take, in its words.
    """

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = field(default=NO_PROVIDER_DATA, compare=False, repr=False)
