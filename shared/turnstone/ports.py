"""Every port: what the domain needs from the world, in its own words. Nothing else of the outside is known inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.records import Get, Key, KeyPage, Operation, Page, Range, Record

if TYPE_CHECKING:  # who stores records needs none of these
    from turnstone.domain.agents.agents import (
        ResponseFormat,
        SamplingParams,
        SystemMessageBehavior,
        ToolPromptFormat,
    )
    from turnstone.domain.jobs import Job
    from turnstone.domain.messages.messages import CompletionMessage, Message
    from turnstone.domain.models.inference import Embedded, EmbeddingRequest, TokenLikelihood
    from turnstone.domain.models.routing import Target
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.registry.registry import Shield as RegisteredShield
    from turnstone.domain.registry.registry import Toolgroup
    from turnstone.domain.sessions.sessions import SessionLock
    from turnstone.domain.shields.verdicts import ShieldQuestion, Verdict
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.domain.turns.turns import TokenUsage
    from turnstone.domain.values.stopping import StopSignal


class RangeStore(Protocol):
    """A transactional store of records in sorted partitions.

    Reads see every write that returned before them, except `open_keys`, which may lag.
    Every method raises StoreUnavailable when the store can't be reached, is throttled, full or read-only.
    """

    def get(self, key: Key) -> Record | None:
        """Return the record, None if there is none."""

    def range(self, query: Range) -> Page:
        """Return the next page of a range. A page may be shorter than `limit`; only `after` is None at the end."""

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[Page]]:
        """Return the answers to several reads, made at the same time where the store allows it."""

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none; at most MAX_OPERATIONS, each on a key of its own.

        The nonce is stored with every record that is put or updated: a write whose condition fails, but which finds
        its own nonce, was applied before (its answer was lost) and succeeds. Without one, each call gets its own.

        Raises:
            Conflict: names the first operation whose condition failed.
        """

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in the order of their partitions."""

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Remove records of a partition, about `limit` at most, and what is left of their bodies; tell if none is left.

        Only that record where `sk` is named. Neither atomic nor conditional: for what nobody can write to any more.
        """


class BlobStore(Protocol):
    """Payloads too large for a record."""

    def put(self, name: str, body: bytes) -> None:
        """Store the payload durably under a name of ASCII letters, digits, `-`, `_` and `/`; again is harmless."""

    def get(self, name: str) -> bytes | None:
        """Return the payload, None if it is missing. Raises StoreUnavailable if that can't be known now."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload, in pieces where it costs nothing more. Raises LookupError if it is missing."""

    def delete(self, name: str) -> None:
        """Remove the payload; nothing happens if there is none."""

    def clear(self, prefix: str, limit: int) -> bool:
        """Remove `limit` payloads at most whose names begin like this; tell if none is left.

        The prefix is a folder, with its `/`, and maybe the beginning of a name in it.
        """


Capability = Literal["grammar"]


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
        stop: tells that nobody wants the answer any more: an adapter that waits for a silent model then fails at once.
        about: ids of the turn that the question is part of, for the log.
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


class Inference(Protocol):
    """A model, or a provider of many."""

    def stream(self, request: InferenceRequest) -> Iterator[TextChunk | Inferred]:
        """Yield the answer as it arrives; the last item, and only that, is Inferred.

        Closing the generator early breaks off the request.

        Raises:
            InvalidRequest: it asks for what its provider does not offer.
            ModelFailed: the provider refused the request or broke off.
            ModelTimedOut: it was silent for too long.
        """

    def models(self) -> tuple[str, ...]:
        """Return the ids of the models that can be asked. Raises ModelError."""

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        """Return what each of these targets can do, without asking them; where none is named, whoever would be asked.

        What is not among them is refused before a turn opens.
        """


class Embeddings(Protocol):
    """A model that makes vectors of texts, or a provider of many."""

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. One that can't make them as long as asked makes them as it can.

        Raises:
            Unsupported: the provider makes no embeddings.
            ModelFailed: it refused the request or broke off.
            ModelTimedOut: it was silent for too long.
        """


class Toolbox(Protocol):
    """The tools of one toolgroup."""

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        """Return the tools there are, for this asker.

        Raises:
            ToolgroupUnavailable: whoever has them can't be asked now.
        """

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Run the call. Raises ToolFailed, whose message is shown to the model."""


class ToolKinds(Protocol):
    """Makes toolboxes: of the groups that come with the server, and of what was registered."""

    def builtin(self) -> tuple[str, ...]:
        """Return the names of the groups that come with this server."""

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox; nothing outside is asked before its tools are.

        Raises:
            InvalidRequest: names what of the definition is wrong.
            Unsupported: this server does not run such tools, and why.
        """

    def remote(self) -> Toolbox:
        """Return what runs calls where their agent's own definition says (`options.remote_execution`)."""


class Shield(Protocol):
    """Judges what is said, before it is shown to the model or becomes a turn's output."""

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the verdict. What the shield can't see, such as images for most, it does not judge.

        Raises:
            ShieldFailed: it could not judge; the message tells nothing of what was said.
        """


class ShieldKinds(Protocol):
    """Makes shields of what was registered."""

    def build(self, registered: RegisteredShield) -> Shield:
        """Return the shield; nothing outside is asked before it judges.

        Raises:
            InvalidRequest: names what of the definition is wrong.
        """


class Supervisor(Protocol):
    """Looks after turns that nobody's request looks after: paused ones, and those whose process died."""

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        """See to it that the turn is attended to soon after its lock's time is over, and from then on until it ends.

        The lock is the last known one. Watching a turn that is watched already only brings the time forward. Returns
        when that is durable. Raises StoreUnavailable.
        """

    def wake(self, token: str) -> None:
        """Tell whoever waits with a turn, and left this token in it, that it moves on. Raises StoreUnavailable."""


class Jobs(Protocol):
    """Has clean-up jobs done, outside of requests. What a job is about stands in the store."""

    def send(self, job: Job) -> None:
        """Have the job run soon after it is due; it may run more than once. Raises StoreUnavailable.

        One that is due much later may be left to whoever sends what is due. So may one whose sending fails.
        """

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Send many jobs, as `send` does each, in as few requests as possible. Raises StoreUnavailable."""


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time, aware, in UTC. It may be set back or forward at any moment."""

    def monotonic_s(self) -> float:
        """Return seconds from some moment on, which pass evenly however the time is set; for this process only."""


class IdGenerator(Protocol):
    def new_id(self) -> str:
        """Return an id that no one has, whose text sorts by the time it was made."""

    def order_key(self, at: datetime, previous: str | None) -> str:
        """Return a UUIDv7 of that time, or of a millisecond after `previous` if that is later."""
