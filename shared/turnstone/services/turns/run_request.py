"""The requests to open a turn and to run it, and the dependencies of a run."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import Conflict
from turnstone.domain.memory.lent_banks import LentBanks
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.context import SEALED_TOKENS, Segment
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.loop_policies import AGENTS, LoopPolicy
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import NewTurn, TurnState
from turnstone.engine.steps import PromptSource
from turnstone.ports.models import Inference
from turnstone.ports.records import Get, Put
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.shields.shielding import Shieldings
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.tools.tool_running import SessionTools
from turnstone.services.tools.toolboxes import Toolboxes
from turnstone.services.turns.leases import LeaseKeeper
from turnstone.services.turns.summarizing import Summarizer
from turnstone.services.usage.limits import Limits
from turnstone.store.sessions.turns import NewSession, SessionView, TurnStore

if TYPE_CHECKING:  # few turns have memory
    from turnstone.ports.memory import TurnMemories


class RunnerDeps(NamedTuple):
    """Dependencies of every run of a turn.

    Attributes:
        context_tokens: limit of a model's input in estimated tokens, for a model without a configured context window.
        limits: of the tokens and the time of a turn, and of a tenant's day.
        summarizer: returns what summarizes the turns that exceed a context window.
        summarizes_all: whether they are summarized by default; otherwise by the policy of the turn.
        route: returns the route of a tenant's model. Raises InvalidRequest.
        follow: polls a turn of another process for the requests that wait for it here.
        fetch_documents: returns the documents of each field with the texts at their addresses. Raises InvalidRequest.
        memories: returns the memory of turns, which is loaded for the first turn that has some.
        prompt_of: returns the source of a turn's system messages, None for its instructions; None where all use those.
        tidies_up: whether a run may still work after its end was published.
        runs_unattended: whether a run may begin after its request was answered; otherwise another process runs it.
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
    summarizer: Callable[[], Summarizer]
    summarizes_all: bool
    follow: Callable[[TurnRef], None]
    tidies_up: bool
    runs_unattended: bool
    memories: "Callable[[], TurnMemories]"
    fetch_documents: Callable[[Mapping[str, Sequence[TurnDocument]]], Mapping[str, tuple[TurnDocument, ...]]]
    prompt_of: Callable[[TurnRef, AgentConfig], PromptSource | None] | None = None

    @property
    def read_tokens(self) -> int:
        """Tokens of the log to read for a turn; a summary adds its own segment and the one it cut short."""
        return self.read_tokens_by(AGENTS)

    def read_tokens_by(self, policy: LoopPolicy) -> int:
        """Return the tokens of the log to read for a turn with that policy."""
        return self.context_tokens + (2 * SEALED_TOKENS if self.summarizes(policy) else 0)

    def summarizes(self, policy: LoopPolicy) -> bool:
        """Return whether a turn with that policy summarizes the turns that exceed a context window."""
        return self.summarizes_all or policy.summarizes

    def read_tokens_of(self, tenant: str, model_id: str) -> int:
        """Return the tokens of the log that the model's context may hold. Raises as `route` does."""
        return max(self.read_tokens, self.route(tenant, model_id).context_tokens or 0)


class Opening(NamedTuple):
    """The request to open a turn.

    Attributes:
        patience_s: the longest wait for the end of the session's running turn; by default the request is refused.
        create: the session, which is stored together with the turn unless it exists.
        is_session_shared: whether other requests open turns in that session, too; else its id is that of the request.
        log: the context log that the new session begins with.
        beside: writes of a dialect's own records, made together with those of the turn, or not at all.
        beside_turn: returns further such writes, whose keys contain the turn's; gets the turn's tools, too.
        turn_id: an earlier turn of the session, for `fit`.
        reads: records of a dialect, for `fit`.
        opens_without_tools: whether the turn is opened, to fail, where a server of its own can't list its tools.
        needs_whole_history: whether the turn is refused unless its model's context holds the session's whole history.
        fit: returns the turn that fits the session as read, with all that was read for it; called for each try of the
            opening. Raises errors of the request.
    """

    new: NewTurn
    patience_s: float = 0.0
    create: Session | None = None
    is_session_shared: bool = False
    log: tuple[Segment, ...] = ()
    beside: tuple[Put, ...] = ()
    beside_turn: Callable[[TurnRef, ToolOffer], tuple[Put, ...]] = lambda *_: ()
    turn_id: str | None = None
    reads: tuple[Get, ...] = ()
    opens_without_tools: bool = False
    needs_whole_history: bool = False
    fit: Callable[[SessionView], NewTurn] | None = None

    @property
    def new_session(self) -> NewSession | None:
        """The session that is stored together with the turn, unless it exists."""
        return None if self.create is None else NewSession(self.create, self.log)

    @property
    def is_session_own(self) -> bool:
        """Whether the session belongs to the request alone: each turn of an equal request is that of the same one."""
        return self.create is not None and not self.is_session_shared

    def fitted(self, view: SessionView) -> Self:
        """Return the opening with the turn that fits the session."""
        return self if self.fit is None else self._replace(new=self.fit(view))


class BesideConflict(Exception):
    """The condition of a record beside the turn does not hold: an earlier attempt stored it. Nothing was written."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(str(conflict))
        self.conflict = conflict


class InBackground(NamedTuple):
    """A turn that runs without a request.

    Attributes:
        is_queued: whether no process has run it yet.
    """

    ref: TurnRef
    state: TurnState
    is_queued: bool


class Equipment(NamedTuple):
    """The model's route, the tools and the offer of a turn, looked up once at its opening."""

    route: ModelRoute
    tools: SessionTools
    offer: ToolOffer


class RunRequest(NamedTuple):
    """A turn whose lock was just taken.

    Attributes:
        config: the configuration that the turn runs with.
        banks: the memory banks that it may read.
        segments: newest context segments, the open one last.
        first_events: published before those of the run.
        provider_data: keys of the caller, for this run only.
        before: events of earlier runs, for subscribers that read the turn from its start.
        equipment: None for a turn that continues after a pause or a takeover; its run looks it up.
    """

    ref: TurnRef
    session: Session
    state: TurnState
    config: AgentConfig
    banks: LentBanks
    segments: tuple[Segment, ...]
    first_events: tuple[Numbered, ...]
    before: tuple[Numbered, ...] = ()
    provider_data: ProviderData = NO_PROVIDER_DATA
    equipment: Equipment | None = None

    @property
    def open_segment(self) -> Segment:
        return self.segments[-1] if self.segments else Segment(number=0)
