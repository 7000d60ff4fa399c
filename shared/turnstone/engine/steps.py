"""Dependencies of the engine, and its results."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import CompletionMessage, Message
from turnstone.domain.models.routing import Target
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.sessions.context_budget import History
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tool_runs import ProducedFile, ServerCall, ToolOffer, ToolResult
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import TurnEvent
from turnstone.domain.turns.turns import Attachment, TurnState, Verdict
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.models import Inference
from turnstone.ports.system import Clock, IdGenerator

if TYPE_CHECKING:  # few turns have memory
    from turnstone.ports.memory import Retrieval


class StepRecorder(Protocol):
    def save_step(self, state: TurnState) -> None:
        """Store the newest step of the state durably. Raises LeaseLost."""


class Shielding(Protocol):
    def judge(self, shield_ids: Sequence[str], question: ShieldQuestion) -> Generator[Verdict, None, None]:
        """Yield the verdict of each shield, in this order; all of them run in parallel.

        A failing shield yields the verdict of its `on_failure` setting. Raises StoreUnavailable.
        """


class Tools(Protocol):
    """The server's tools for one turn.

    Attributes:
        max_characters: the limit of an answer's text for the model.
    """

    max_characters: int

    def run(self, calls: Sequence[ServerCall], stop: StopSignal) -> Generator[ToolResult, None, None]:
        """Yield the answer to each call, in this order; all of them run in parallel.

        A failed or overdue tool yields an answer that reports it.
        """

    def keep(
        self, planned: ServerCall, response: ToolResponse, files: Sequence[ProducedFile]
    ) -> tuple[ToolResponse, tuple[Attachment, ...]]:
        """Store an answer's files, and the answer itself if it is too long for a model; return the turn's form of it.

        Repeating the same call replaces its files. Raises StoreUnavailable.
        """


class PromptSource(Protocol):
    def system(self, state: TurnState) -> tuple[Message, ...]:
        """Return the messages before the history, for the next inference; called once for each.

        Raises InvalidRequest, ContentLost and StoreUnavailable.
        """

    def newest(self, state: TurnState) -> tuple[Message, ...]:
        """Return the messages of the last inference; before one, as `system` does."""


class EngineDeps(NamedTuple):
    """Dependencies and settings of a run, none of which are stored.

    Attributes:
        config: the configuration that the turn runs with.
        offer: the tools of that configuration.
        history: messages of earlier turns.
        max_turn_tokens: the limit of tokens before another inference, None for no limit.
        stop: set when the run has lost its lease.
        targets: the targets of the configuration's model, in order.
        provider_data: keys of the caller, for this run only.
        about: ids of the turn, for the log.
        prompt: the source of the system messages, None for the instructions of the configuration.
        history_tokens: the tokens of the messages of a prompt source and of the history together, None for no limit.
        retrieval: the turn's memory, None for a turn without any.
        window_tokens: the size of the model's context window, None for an unlimited one.
    """

    config: AgentConfig
    offer: ToolOffer
    history: History
    inference: Inference
    tools: Tools
    shields: Shielding
    recorder: StepRecorder
    clock: Clock
    ids: IdGenerator
    stop: StopSignal
    max_turn_tokens: int | None = None
    targets: tuple[Target, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    about: Mapping[str, str] = MappingProxyType({})
    prompt: PromptSource | None = None
    history_tokens: int | None = None
    window_tokens: int | None = None
    retrieval: "Retrieval | None" = None


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Every step is stored; call `advance` again with this state."""

    state: TurnState


@dataclass(frozen=True, slots=True)
class ToolsRan:
    """The calls have their answers; the newest step, the answer to the last one, is not stored yet."""

    state: TurnState


@dataclass(frozen=True, slots=True)
class AtRest:
    """The run is over, and its outcome is to be stored, with the newest steps if these are not stored yet.

    Attributes:
        unpublished: the events of these steps, to be published once they are stored.
    """

    state: TurnState
    output: CompletionMessage
    unpublished: tuple[TurnEvent, ...]


class AwaitClientTools(AtRest):
    """The client has to answer the pending calls."""

    __slots__ = ()


class Blocked(AtRest):
    """A shield stopped the turn."""

    __slots__ = ()


class Finish(AtRest):
    """The turn has its answer."""

    __slots__ = ()


NextStep = RunAgain | AwaitClientTools | Blocked | Finish
