"""What a model is asked outside of any turn, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from turnstone.domain.agents import AgentConfig
from turnstone.domain.messages import CompletionMessage, Message
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.routing import Target
from turnstone.domain.turns import TokenUsage

CUT_BYTES_PER_TOKEN = 3  # texts of most languages have more, so that what is left is taken by the model


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
class TextsToEmbed:
    """Texts whose vectors are wanted.

    Attributes:
        dimensions: how long the vectors shall be, None for as long as the model makes them.
        dimensions_field: what the caller calls that.
        extras: see `EmbeddingRequest`.
        cut_at: where a text loses what is too long for the model; None for nowhere.
    """

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    dimensions_field: str = "dimensions"
    extras: Mapping[str, Any] = field(default_factory=dict)
    cut_at: Literal["start", "end"] | None = None

    def texts_within(self, limit_tokens: int | None) -> tuple[str, ...]:
        """Return the texts, each cut so that it has no more tokens than that by a cautious estimate."""
        if self.cut_at is None or limit_tokens is None:
            return self.texts
        return tuple(_cut(text, limit_tokens * CUT_BYTES_PER_TOKEN, self.cut_at) for text in self.texts)


def _cut(text: str, most_bytes: int, cut_at: Literal["start", "end"]) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= most_bytes:
        return text
    kept = encoded[-most_bytes:] if cut_at == "start" else encoded[:most_bytes]
    return kept.decode("utf-8", "ignore")


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
