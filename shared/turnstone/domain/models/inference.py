"""Direct questions, outside of any turn: conversations, texts to continue, texts to embed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from turnstone.domain.models.requests import Inferred
from turnstone.domain.usage.usage import TokenUsage

if TYPE_CHECKING:  # requests are validated where they are made
    from turnstone.domain.agents.agents import (
        AgentConfig,
    )
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.values.content import Content

CUT_BYTES_PER_TOKEN = 3  # texts of most languages have more, so that what is left is taken by the model


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation that a model shall go on with.

    Attributes:
        config: of an agent that would ask like this: the model, its sampling, the tools that are told to it.
        extras: see `InferenceRequest`; likewise those of messages and tools.
        needed_extras: those without which the answer is not what is asked for, so that other providers can't be asked.
    """

    messages: tuple[Message, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)
    message_extras: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    tool_extras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needed_extras: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TextsToContinue:
    """Texts to continue, each by itself.

    Attributes:
        prompts: one or more. One with images, or whose answer is bound to a format, is a message of a chat.
        config: as of a `Question`; its extras and needed extras likewise.
        are_echoed: each text comes before its continuation, in parts, while the answer is given.
    """

    prompts: tuple[Content, ...]
    config: AgentConfig
    extras: Mapping[str, Any] = field(default_factory=dict)
    needed_extras: tuple[str, ...] = ()
    are_echoed: bool = False


@dataclass(frozen=True, slots=True)
class Continued:
    """One of the texts is continued to its end; what comes after it continues the next one."""

    answer: Inferred


@dataclass(frozen=True, slots=True)
class Continuations:
    """The whole answers to all texts, in the order of the texts."""

    answers: tuple[Inferred, ...]

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
