"""What the engine is given, and what it answers."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.messages.messages import CompletionMessage, Message
from turnstone.domain.models.routing import Target
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.shields.verdicts import ShieldQuestion, Verdict
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult, ToolRun
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turns import Attachment, Step, TurnState
from turnstone.domain.values.cancellation import StopSignal
from turnstone.engine.tool_plan import ToolOffer
from turnstone.ports.models import Inference
from turnstone.ports.system import Clock, IdGenerator


class StepRecorder(Protocol):
    def save_step(self, state: TurnState) -> None:
        """Store the newest step of the state durably. Raises LeaseLost."""


class Shielding(Protocol):
    def judge(self, shield_ids: Sequence[str], question: ShieldQuestion) -> Generator[Verdict, None, None]:
        """Yield the verdict of each shield, in this order, while all of them work at the same time.

        A shield that can't judge yields what it is told to do then. Raises StoreUnavailable.
        """


class Tools(Protocol):
    """The server's tools, as one turn may use them.

    Attributes:
        max_characters: how much of an answer's text a model is shown.
    """

    max_characters: int

    def run(self, runs: Sequence[ToolRun], stop: StopSignal) -> Generator[ToolResult, None, None]:
        """Yield the answer to each call, in this order, while all of them are run at the same time.

        A tool that fails, or takes too long, answers that.
        """

    def keep(
        self, run: ToolRun, response: ToolResponse, files: Sequence[ProducedFile]
    ) -> tuple[ToolResponse, tuple[Attachment, ...]]:
        """Store the files of an answer, and it itself if it is too long for a model; return what the turn keeps.

        The same run's files take each other's place. Raises StoreUnavailable.
        """


class EngineDeps(NamedTuple):
    """All the engine works with, and nothing that is stored.

    Attributes:
        config: the agent's configuration with the turn's overrides.
        offer: the tools of that configuration.
        history: messages of earlier turns, oldest first.
        max_turn_tokens: after how many spent tokens the model is asked no more, None for any number.
        stop: given when the run has no right to go on.
        targets: who is asked for the configuration's model, in this order.
        provider_data: keys of the caller, for this run only.
        about: ids of the turn, for the log.
    """

    config: AgentConfig
    offer: ToolOffer
    history: tuple[Message, ...]
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


@dataclass(frozen=True, slots=True)
class RunAgain:
    """Every step is stored; call `advance` again with this state."""

    state: TurnState


@dataclass(frozen=True, slots=True)
class AtRest:
    """The run is over, and what it came to is to be stored. `unsaved` is the newest step if that is not stored yet."""

    state: TurnState
    output: CompletionMessage
    unsaved: Step | None


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
