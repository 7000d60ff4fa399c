"""What a model is asked outside of any turn, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnstone.domain.agents import AgentConfig
from turnstone.domain.content import Content
from turnstone.domain.messages import CompletionMessage, Message
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.routing import Target
from turnstone.domain.turns import TokenUsage


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation that a model shall go on with.

    Attributes:
        config: of an agent that would ask like this: the model, its sampling, the tools that are told to it.
        extras: see `InferenceRequest`.
    """

    messages: tuple[Message, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The whole answer. Usage is None if none was reported."""

    message: CompletionMessage
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True)
class TextsToContinue:
    """Texts to continue, each by itself.

    Attributes:
        prompts: one or more. One with images, or whose answer is bound to a format, is a message of a chat.
        config: as of a `Question`.
        extras: see `InferenceRequest`.
    """

    prompts: tuple[Content, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Continued:
    """One of the texts is continued to its end; what comes after it continues the next one."""

    answer: ModelAnswer


@dataclass(frozen=True, slots=True)
class Continuations:
    """The whole answers to all texts, in the order of the texts."""

    answers: tuple[ModelAnswer, ...]

    @property
    def usage(self) -> TokenUsage | None:
        """What all of them used; None if nothing was reported of one of them."""
        reported = [answer.usage for answer in self.answers if answer.usage is not None]
        if len(reported) < len(self.answers):
            return None
        return TokenUsage(
            prompt_tokens=sum(usage.prompt_tokens for usage in reported),
            completion_tokens=sum(usage.completion_tokens for usage in reported),
            total_tokens=sum(usage.total_tokens for usage in reported),
        )


@dataclass(frozen=True, slots=True)
class TextsToEmbed:
    """Texts whose vectors are wanted.

    Attributes:
        dimensions: how long the vectors shall be, None for as long as the model makes them.
        dimensions_field: what the caller calls that.
        extras: see `EmbeddingRequest`.
    """

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    dimensions_field: str = "dimensions"
    extras: Mapping[str, Any] = field(default_factory=dict)


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
