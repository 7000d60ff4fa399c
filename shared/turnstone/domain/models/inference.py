"""Direct requests, outside turns: conversations, texts to continue, texts to embed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from turnstone.domain.models.requests import EmbeddingPurpose, Inferred
from turnstone.domain.usage.usage import TokenUsage

if TYPE_CHECKING:  # requests are validated by their creator
    from turnstone.domain.agents.agents import (
        AgentConfig,
    )
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.values.content import Content

CUT_BYTES_PER_TOKEN = 3  # texts of most languages have more, so the model accepts the rest


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation for a model to continue.

    Attributes:
        config: of an equivalent agent: the model, its sampling, the tools declared to it.
        extras: see `InferenceRequest`; likewise those of messages and tools.
        needed_extras: the extras essential to the answer, which exclude providers that ignore them.
    """

    messages: tuple[Message, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)
    message_extras: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    tool_extras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needed_extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextsToContinue:
    """Texts to continue, each separately.

    Attributes:
        prompts: one or more. One with images, or with a response format, is sent as a chat message.
        config: as of a `Question`; its extras and needed extras likewise.
        are_echoed: whether each text is emitted before its continuation, in parts.
    """

    prompts: tuple[Content, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)
    needed_extras: tuple[str, ...] = ()
    are_echoed: bool = False


@dataclass(frozen=True, slots=True)
class Continued:
    """The end of one text's continuation; later chunks continue the next text."""

    answer: Inferred


@dataclass(frozen=True, slots=True)
class Continuations:
    """Complete answers to all texts, in the order of the texts."""

    answers: tuple[Inferred, ...]

    @property
    def usage(self) -> TokenUsage | None:
        """The usage of all together; None if one of them has none."""
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
    """Texts to embed.

    Attributes:
        dimensions: the requested length of the vectors, None for the model's own.
        dimensions_field: the caller's name of that field.
        extras: see `EmbeddingRequest`.
        cut_at: the end at which a text too long for the model is cut; None for no cut.
        purpose: see `EmbeddingRequest`.
    """

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    dimensions_field: str = "dimensions"
    extras: Mapping[str, Any] = field(default_factory=dict)
    cut_at: Literal["start", "end"] | None = None
    purpose: EmbeddingPurpose = "document"

    def texts_within(self, limit_tokens: int | None) -> tuple[str, ...]:
        """Return the texts, each cut to that number of tokens by a cautious estimate."""
        if self.cut_at is None or limit_tokens is None:
            return self.texts
        return tuple(_cut(text, limit_tokens * CUT_BYTES_PER_TOKEN, self.cut_at) for text in self.texts)


def _cut(text: str, most_bytes: int, cut_at: Literal["start", "end"]) -> str:
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= most_bytes:
        return text
    kept = encoded[-most_bytes:] if cut_at == "start" else encoded[:most_bytes]
    return kept.decode("utf-8", "ignore")
