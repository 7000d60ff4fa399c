"""Requests to models, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData

if TYPE_CHECKING:  # their parts were imported by their creator
    from turnstone.domain.agents.agents import ResponseFormat, SamplingParams, SystemMessageBehavior, ToolPromptFormat
    from turnstone.domain.messages.messages import CompletionMessage, Message
    from turnstone.domain.models.routing import Target
    from turnstone.domain.tools.tools import ToolCall, ToolDef
    from turnstone.domain.usage.usage import TokenUsage
    from turnstone.domain.values.cancellation import StopSignal


class InferenceRequest(NamedTuple):
    """A request to a model.

    Attributes:
        model: the provider's name of it; with `targets`, the agent's name of it.
        tool_choice: auto, required, none or a tool's name.
        sampling: None for the model's defaults.
        tool_prompt_format: how a prompt describes tools to a model without native tools.
        system_message_behavior: append those descriptions to the system message, or replace them by it.
        targets: the targets to try in this order; none: the provider that receives the request.
        provider_data: the caller's own keys, for this request only.
        extras: fields that only servers of OpenAI's API accept, in its terms; they override the other fields.
        message_extras: likewise fields of a message, by its index.
        tool_extras: likewise fields of a tool, by its name.
        prompt: a text to continue, for providers that can; `messages` hold it as one message for all others.
        stop: cancels the request: an adapter that waits for a silent model fails at once.
        about: ids of the turn that the request belongs to, for the log.
        reads_details: whether reasoning and parts of calls are of use; else they do not begin an answer, so that
            another target can still give one.
        takes_batches: whether a provider may yield `TextChunks`; only without `reads_details`.
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
    reads_details: bool = False
    takes_batches: bool = False


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log probability of a token, with its bytes where available.

    A compact form: a long answer has a hundred thousand of them.
    """

    token: str
    logprob: float
    bytes: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TokenLikelihood(Likelihood):
    """Log probability of a token of the answer, and of its most likely alternatives."""

    top_logprobs: tuple[Likelihood, ...]


class TextChunk(NamedTuple):
    """A part of the answer's text; it may be empty with logprobs, which the extras requested."""

    text: str
    logprobs: tuple[TokenLikelihood, ...] = ()


class TextChunks(NamedTuple):
    """The texts of several chunks that arrived together, none of them empty, for a request that takes batches."""

    texts: tuple[str, ...]


class ReasoningChunk(NamedTuple):
    """A part of the model's reasoning, which precedes the answer or stands between its parts."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The start of a call: its index among the answer's calls, in their order, its final id, and its name."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsChunk:
    """A part of the JSON of a call's arguments, after its `CallBegun`."""

    index: int
    text: str


Piece = ReasoningChunk | CallBegun | ArgumentsChunk
Chunk = TextChunk | Piece


class Inferred(NamedTuple):
    """The complete answer: the text of all chunks, and calls with unique ids.

    Attributes:
        usage: None if the provider reports none.
        answered_by: the target that answered, where there were several.
        logprobs: the log probabilities of all chunks.
        reasoning: the text of all reasoning chunks; later requests do not contain it.
    """

    message: CompletionMessage
    usage: TokenUsage | None = None
    answered_by: Target | None = None
    logprobs: tuple[TokenLikelihood, ...] = ()
    reasoning: str = ""


Streamed = Chunk | TextChunks | Inferred


def call_pieces(calls: Iterable[ToolCall]) -> Iterator[CallBegun | ArgumentsChunk]:
    """Yield the pieces of complete calls: the start of each, then its arguments as one, if it has any."""
    for index, call in enumerate(calls):
        yield CallBegun(index, call.call_id, call.tool_name)
        if call.arguments_json:
            yield ArgumentsChunk(index, call.arguments_json)


class Embedded(NamedTuple):
    """The vector of each text, in the order of the texts, and the tokens used; None if not reported."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None = None


EmbeddingPurpose = Literal["document", "query"]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to embed.

    Attributes:
        model: as in an `InferenceRequest`; its targets and provider data likewise.
        dimensions: the requested length of the vectors, None for the model's own.
        extras: fields that only servers of OpenAI's API accept, in its terms.
        purpose: whether the texts are questions or what these search in; most models make no difference.
    """

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    purpose: EmbeddingPurpose = "document"
    extras: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = field(default=NO_PROVIDER_DATA, compare=False, repr=False)
