"""What it takes to run a turn, and the turn that is to be run."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.context import SEALED_TOKENS, Segment
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.turns import TurnState
from turnstone.engine.tool_plan import ToolOffer
from turnstone.ports.models import Inference
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.shields.shielding import Shieldings
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.tools.tool_running import SessionTools
from turnstone.services.tools.toolboxes import Toolboxes
from turnstone.services.turns.leases import LeaseKeeper
from turnstone.services.turns.summarizing import Summarizer
from turnstone.services.usage.limits import Limits
from turnstone.store.sessions.turns import TurnStore


class RunnerDeps(NamedTuple):
    """What running a turn takes, whatever the turn.

    Attributes:
        context_tokens: what a model is sent at most, in estimated tokens, where nothing is known of its window.
        limits: how many tokens may be spent.
        summarizer: has models write down what their windows have no room for, None where they shall not.
        route: returns who answers for a tenant's model. Raises InvalidRequest.
        follow: has those who wait here for a turn of another process told how it goes on there.
        tidies_up: whether a run may still work when its end has been told.
    """

    turns: TurnStore
    inference: Inference
    tools: Toolboxes
    shields: Shieldings
    supervisor: Supervisor
    clock: Clock
    ids: IdGenerator
    leases: LeaseKeeper
    broadcasts: Broadcasts
    context_tokens: int
    await_duration: timedelta
    route: Callable[[str, str], ModelRoute]
    limits: Limits
    summarizer: Summarizer | None
    follow: Callable[[TurnRef], None]
    tidies_up: bool

    @property
    def read_tokens(self) -> int:
        """For how many tokens of the log a turn is opened; a summary's segment, and the one it cut short, are more."""
        return self.context_tokens + (2 * SEALED_TOKENS if self.summarizer else 0)


class Equipment(NamedTuple):
    """What a turn of a configuration works with, looked up once at its opening."""

    route: ModelRoute
    tools: SessionTools
    offer: ToolOffer


class RunRequest(NamedTuple):
    """A turn whose lock was just taken.

    Attributes:
        config: the agent's configuration with the turn's overrides.
        segments: newest context segments, the open one last.
        told: events that come before those of the run.
        provider_data: keys of the caller, for this run only.
        before: events of earlier runs, for those who want to hear the turn from its start.
        equipment: None for a turn that continues after a pause or a takeover; its run looks it up.
    """

    ref: TurnRef
    session: Session
    state: TurnState
    config: AgentConfig
    segments: tuple[Segment, ...]
    told: tuple[Numbered, ...]
    before: tuple[Numbered, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    equipment: Equipment | None = None

    @property
    def open_segment(self) -> Segment:
        return self.segments[-1] if self.segments else Segment(number=0)
