"""Opening a turn: its checks, and its first write, by which it runs here or is queued."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import (
    Conflict,
    HistoryTooLong,
    InvalidRequest,
    ToolgroupUnavailable,
    TurnAwaited,
    TurnRunning,
)
from turnstone.domain.memory.lent_banks import LentBanks
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.context import Segment, tokens_of
from turnstone.domain.sessions.lending import keeps_texts, lent_banks
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.domain.tools.inline_toolgroups import INLINE
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turn_settings import TurnDocument, with_documents
from turnstone.domain.turns.turns import NewTurn, Turn, TurnState, TurnStatus, silent_output
from turnstone.ports.records import Operation, Put
from turnstone.services.agents.refusals import (
    refuse_added_python_tools,
    refuse_many_iterations,
    refuse_wrong_arguments,
    supported_offer,
)
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import numbered
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.tools.tool_running import ToolCaller
from turnstone.services.turns.run_request import (
    BesideConflict,
    Equipment,
    InBackground,
    Opening,
    RunnerDeps,
    RunRequest,
)
from turnstone.services.turns.running import TurnRunner
from turnstone.services.turns.supervision import wake, watch, watch_if_due
from turnstone.services.turns.transitions import closed, ended_unanswered, opened, queued, superseding
from turnstone.services.turns.turn_failures import warn_of_failure
from turnstone.store.layout.idempotency import put_remembered
from turnstone.store.sessions.turns import Change, SessionView

if TYPE_CHECKING:  # not where other processes run the queued turns
    from turnstone.services.threads.queued_runs import Reservation

IN_REQUEST = "data:"  # the scheme of addresses that contain their text


class CheckedOpening(NamedTuple):
    """A turn that nothing refuses, with all that its opening writes.

    Attributes:
        old: the ended state of the turn that held the lock, None without one.
        ended: the change that ends it.
        beside: the writes besides those of the turn.
        own: those of them that are a dialect's.
    """

    ref: SessionRef
    view: SessionView
    session: Session
    state: TurnState
    config: AgentConfig
    banks: LentBanks
    equipment: Equipment
    attempt: Attempt
    old: TurnState | None
    ended: Change | None
    remembered: tuple[Put, ...]
    beside: tuple[Operation, ...]
    own: tuple[Put, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The newest context segments, as stored with the opening."""
        return self.view.segments if self.ended is None else self.view.segments_with(*self.ended.segments)


class Opener:
    def __init__(self, deps: RunnerDeps, runner: TurnRunner, executor: TurnExecutor) -> None:
        self._deps = deps
        self._store = deps.turns
        self._runner = runner
        self._executor = executor

    def fetched(self, tenant: str, opening: Opening) -> Opening:
        """Return the opening with the texts at the addresses of its documents, fetched in a slot of their own.

        Raises:
            InvalidRequest: a document can't be fetched, or has no text.
            Overloaded: every slot is taken.
        """
        new = opening.new
        addresses = [each.address for each in (*new.documents, *new.attachments) if each.address is not None]
        if not addresses:
            return opening
        is_fetched = any(not address.lower().startswith(IN_REQUEST) for address in addresses)
        with self._executor.permit(tenant) if is_fetched else nullcontext():
            fetched = self._deps.fetch_documents({"documents": new.documents, "attachments": new.attachments})
        return opening._replace(new=new.model_copy(update=fetched))

    def checked(
        self, ref: SessionRef, view: SessionView, opening: Opening, attempt: Attempt, now: datetime
    ) -> CheckedOpening:
        """Return the turn as it may be opened now. For the errors see `Turns.start`."""
        new = opening.new
        refuse_many_iterations(new.overrides.max_infer_iters, self._deps.limits.infer_iters)
        refuse_wrong_arguments(new.overrides.toolgroups or ())
        refuse_added_python_tools(new.overrides.toolgroups or (), view.agent.agent_config.toolgroups)
        config = new.config_with(view.agent.agent_config)
        session = view.session
        if not session.has_bank and (new.attachments or keeps_texts(config)):
            session = session.model_copy(update={"has_bank": True})
        banks = lent_banks(view.agent.agent_config, view.agent_owner, session, new)
        new, equipment = self._equipped(ref, new, config, attempt, banks, is_refused=not opening.opens_without_tools)
        if banks.named:
            self._deps.memories().refuse(ref.tenant, config, banks)
        if new.documents:
            refuse_large_documents(new.documents, equipment.route.context_tokens or self._deps.context_tokens)
        lock = view.session.lock
        if lock.order is not None and self._is_running(ref.turn(lock.order), lock, now):
            if lock.state is LockState.QUEUED:
                watch_if_due(self._deps.supervisor, self._deps.clock, ref, view.session)
            if opening.patience_s:
                raise TurnAwaited(ref.turn(lock.order), opening.patience_s)
            raise TurnRunning(lock.order)
        self._deps.limits.of_day.check(ref.tenant)
        state = self._new_state(view.session, new, config, now)
        old: TurnState | None = None
        ended: Change | None = None
        if lock.order is not None:
            old = self._ended_holder(ref.turn(lock.order), new, is_overdue=lock.is_overdue(now), now=now)
            ended = closed(session, old, view.open_segment)
        if opening.needs_whole_history:
            segments = view.segments if ended is None else view.segments_with(*ended.segments)
            self._refuse_cut_history(ref, state, session, segments, equipment, config)
        session = session.used(now)
        own = (*opening.beside, *opening.beside_turn(ref.turn(state.order), equipment.offer))
        beside: tuple[Operation, ...] = own
        if not session.rev:
            from turnstone.store.sessions.session_records import put_segment
            from turnstone.store.sessions.sessions import creation  # only where a session is created with its turn

            beside = (*creation(ref, session, now), *(put_segment(ref, each) for each in opening.log), *beside)
        remembered = put_remembered(ref, attempt, {"turn_id": state.turn_id}, now, view.remembered)
        return CheckedOpening(
            ref, view, session, state, config, banks, equipment, attempt, old, ended, remembered, beside, own
        )

    def run(self, checked: CheckedOpening) -> TurnBroadcast:
        """Store the turn and run it here. Raises Overloaded without a slot."""
        ref, state, attempt = checked.ref, checked.state, checked.attempt
        lease_until = state.turn.started_at + self._deps.leases.duration
        change = opened(checked.session, state, lease_until, attempt.fingerprint)
        with self._executor.permit(ref.tenant) as permit:
            committed = self._committed(checked, change)
            launch = RunRequest(
                ref=ref.turn(state.order),
                session=committed.session,
                state=committed.turns[-1],
                config=checked.config,
                banks=checked.banks,
                segments=checked.segments,
                first_events=numbered(state),
                provider_data=attempt.provider_data,
                equipment=checked.equipment,
            )
            broadcast = self._runner.launch(launch, permit)
        self._report_ended(checked)
        return broadcast

    def queue(self, checked: CheckedOpening, reserved: Reservation | None = None) -> InBackground:
        """Store the turn, to be run by this process once its reservation has a slot, or by the supervisor."""
        ref = checked.ref.turn(checked.state.order)
        try:
            committed = self._committed(checked, queued(checked.session, checked.state, checked.attempt.fingerprint))
        except BaseException:
            if reserved is not None:
                reserved.leave()
            raise
        if reserved is not None:
            reserved.begin(ref, checked.attempt.provider_data)
        watch(self._deps.supervisor, ref, committed.session.lock)
        self._report_ended(checked)
        return InBackground(ref, committed.turns[-1], is_queued=True)

    def _committed(self, checked: CheckedOpening, change: Change) -> Change:
        """Commit the opening with all that belongs to it. Raises Conflict, BesideConflict."""
        if checked.ended is not None:
            change = superseding(change, checked.ended)
        try:
            return self._store.commit(
                checked.ref, change._replace(remembered=checked.remembered, beside=checked.beside)
            )
        except Conflict as conflict:
            if any(put.key == conflict.key for put in checked.own):
                raise BesideConflict(conflict) from conflict
            raise

    def _report_ended(self, checked: CheckedOpening) -> None:
        """Report the turn that the opening ended, if there was one."""
        if checked.old is not None:
            warn_of_failure(checked.ref.turn(checked.old.order), checked.old)
            wake(self._deps.supervisor, checked.old.token)

    def equipment(self, ref: SessionRef, config: AgentConfig, attempt: Attempt, caller: ToolCaller) -> Equipment:
        """Return the equipment of a turn of this configuration. Raises InvalidRequest if a part is not available."""
        route = self._deps.route(ref.tenant, config.model)
        tools = self._deps.tools.of(ref, attempt.provider_data, caller)
        capabilities = partial(self._deps.inference.capabilities, route.targets)
        offer = supported_offer(route.with_prompt_format(config), tools.of_tenant.offered, capabilities)
        self._deps.shields.refuse_unusable(ref.tenant, config)
        return Equipment(route, tools, offer)

    def _equipped(
        self,
        ref: SessionRef,
        new: NewTurn,
        config: AgentConfig,
        attempt: Attempt,
        banks: LentBanks,
        *,
        is_refused: bool,
    ) -> tuple[NewTurn, Equipment]:
        """Return the turn with its equipment.

        Unless that is refused, a turn whose own server can't list its tools loses its own servers: it fails in this
        process, and in another one that takes it over. Raises as `equipment` does.
        """
        caller = ToolCaller(new.chain, banks, new.own_toolgroups, new.named_by)
        try:
            return new, self.equipment(ref, config, attempt, caller)
        except ToolgroupUnavailable as unavailable:
            if is_refused or not unavailable.toolgroup_id.startswith(INLINE):
                raise
            tools = self._deps.tools.of(ref, attempt.provider_data, caller)
            offer = ToolOffer({}, {}, unavailable)
            equipment = Equipment(self._deps.route(ref.tenant, config.model), tools, offer)
            return new.model_copy(update={"own_toolgroups": ()}), equipment

    def _is_running(self, ref: TurnRef, lock: SessionLock, now: datetime) -> bool:
        """Return whether the turn is queued, or a process runs it: this one, or one that holds a live lease."""
        if lock.state is LockState.QUEUED:  # it has not lost its session to a newer request before its first run
            return True
        is_live = self._deps.leases.seen(ref, lock, now).is_live(now)
        return is_live or self._deps.leases.is_held(ref, lock.fence)

    def _ended_holder(self, ref: TurnRef, new: NewTurn, *, is_overdue: bool, now: datetime) -> TurnState:
        """Return the ended state of the turn that holds the lock without a right to continue.

        One whose calls the new turn answers ends with them, as a turn of the new one's API does.
        """
        _, state = self._store.load(ref)
        if state.status is TurnStatus.IN_PROGRESS:
            return ended_unanswered(state, TurnStatus.FAILED, now)
        if not is_overdue and new.answers_any(state.pending_calls):
            return state.completed(state.turn.output_message, now)
        return ended_unanswered(state, TurnStatus.EXPIRED if is_overdue else TurnStatus.CANCELLED, now)

    def _refuse_cut_history(
        self,
        ref: SessionRef,
        state: TurnState,
        session: Session,
        segments: tuple[Segment, ...],
        equipment: Equipment,
        config: AgentConfig,
    ) -> None:
        """Raise HistoryTooLong unless the context of the turn's model holds the whole history before it."""
        from turnstone.domain.sessions.context_budget import budget_tokens, is_whole_within
        from turnstone.engine.prompt import fixed_tokens  # both where such a turn is opened only

        route, _, offer = equipment
        config = route.with_prompt_format(self._deps.limits.applied_to(config))
        most = budget_tokens(route, config, self._deps.context_tokens, session.token_factor)
        left = most - fixed_tokens(state, config, offer.definitions)
        if route.context_tokens is not None and route.context_tokens > self._deps.context_tokens:
            segments = self._store.widened(ref, segments, left)
        if not is_whole_within(segments, left):
            raise HistoryTooLong

    def _new_state(self, session: Session, new: NewTurn, config: AgentConfig, now: datetime) -> TurnState:
        order = self._deps.ids.order_key(now, session.last_order)
        turn = Turn(
            turn_id=order,
            session_id=session.session_id,
            input_messages=new.messages,
            output_message=silent_output(),
            started_at=now,
        )
        return new.opened(turn, config)


def refuse_large_documents(documents: Sequence[TurnDocument], window_tokens: int) -> None:
    """Raise InvalidRequest for documents that take over half of the model's context window."""
    tokens = tokens_of(with_documents((), tuple(documents)))
    if tokens > window_tokens // 2:
        limit = f"{window_tokens // 2}, half of the model's context window"
        remedy = "send less, or put them into a vector database, for the agent to search with builtin::rag"
        raise InvalidRequest(f"documents: they have about {tokens} tokens, over {limit}; {remedy}", ("documents",))
