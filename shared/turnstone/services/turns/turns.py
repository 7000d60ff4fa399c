"""Turns: start one, resume one. Every refusal happens here, before the first event."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import (
    CallsMismatch,
    InvalidRequest,
    NotFound,
    Overloaded,
    StoreUnavailable,
    TurnNotAwaiting,
    TurnRunning,
)
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import NewTurn, Turn, TurnState, TurnStatus, silent_output
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.agents.refusals import refuse_many_iterations, supported_offer
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import events_before_resume, numbered
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.turns.joining import Joining
from turnstone.services.turns.run_request import Equipment, RunnerDeps, RunRequest
from turnstone.services.turns.running import TurnRunner
from turnstone.services.turns.supervision import wake
from turnstone.services.turns.transitions import (
    Answered,
    answered_by_client,
    answered_in_text,
    closed,
    ended_unanswered,
    opened,
    refuse_reopening,
    reopened,
    resumed,
    superseding,
)
from turnstone.services.turns.turn_failures import warn_of_failure
from turnstone.store.layout.contention import TRIES_OF_TURNS, ReadAgain, retried
from turnstone.store.layout.idempotency import answer_in, put_remembered
from turnstone.store.sessions.turns import SessionView

log = logging.getLogger(__name__)


class Turns:
    def __init__(self, deps: RunnerDeps, rules: AccessRules, runner: TurnRunner, executor: TurnExecutor) -> None:
        self._deps = deps
        self._rules = rules
        self._store = deps.turns
        self._runner = runner
        self._executor = executor
        self._joining = Joining(deps)

    def start(self, caller: Caller, ref: SessionRef, new: NewTurn, attempt: Attempt) -> TurnBroadcast:
        """Open a turn and return its broadcast; the turn runs independent of its subscribers.

        A repeated request joins the turn that it opened. Tool responses to the pending calls resume their turn.

        Raises:
            NotFound: the session or its agent.
            InvalidRequest: the turn requests a feature that is not available.
            TurnRunning: another turn of the session runs.
            Overloaded: every slot for a turn is taken.
            DayLimitReached: the tenant has spent its tokens of the day.
        """
        is_paused_for_calls = new.policy.at_client_calls == "pause"
        responses = [m for m in new.messages if isinstance(m, ToolResponseMessage)] if is_paused_for_calls else []
        if responses and len(responses) != len(new.messages):
            raise InvalidRequest(
                "messages: tool responses and user messages can't be sent in one turn; send one kind", ("messages",)
            )

        def act() -> TurnBroadcast:
            view = self._store.view(ref, self._deps.read_tokens, attempt)
            now = self._deps.clock.now()
            check_session(self._rules, caller, view.session, view.agent_owner, now)
            if earlier := self._earlier(ref, view, attempt, now, is_resume=bool(responses)):
                return earlier
            if responses:
                return self._resume_by_messages(ref, view, responses, attempt, now)
            try:
                return self._open(ref, view, new, attempt, now)
            except (TurnRunning, Overloaded, StoreUnavailable) as refused:
                # A second equal message, when the client sends it again, would be taken for a retry of the first.
                refused.may_be_repeated = view.session.last_request != attempt.fingerprint
                raise

        return _settled(act, attempt)

    def resume(
        self, caller: Caller, ref: TurnRef, responses: Sequence[ToolResponse], attempt: Attempt
    ) -> TurnBroadcast:
        """Resume a turn that awaits its client's tool responses; return its broadcast.

        Resumes also the session's newest turn that had its answer: clients read calls out of the text of an answer.

        Raises:
            NotFound: the turn, its session or its agent.
            ContentLost: the turn's content, or the agent's.
            CallsMismatch: the responses are not exactly those to the pending calls.
            TurnNotAwaiting: the turn runs, or has ended otherwise or before another turn.
            InvalidRequest: a turn that had its answer requests a feature that is no longer available.
            Overloaded: every slot for a turn is taken.
            LimitReached: the turn had its answer and has reached its limit, or its tenant that of the day.
        """

        def act() -> TurnBroadcast:
            view = self._store.view(ref, self._deps.read_tokens, attempt, ref.turn_id)
            now = self._deps.clock.now()
            check_session(self._rules, caller, view.session, view.agent_owner, now)
            view.check_turn(ref.turn_id)
            if earlier := self._earlier(ref, view, attempt, now, is_resume=True):
                return earlier
            return self._resume(ref, view, responses, attempt, now)

        return _settled(act, attempt)

    def hand_off(self, ref: TurnRef) -> None:
        """Hand the turn off to another process, because this one ends soon, and notify the subscribers here."""
        self._runner.hand_off(ref, is_watched=False)

    def _open(self, ref: SessionRef, view: SessionView, new: NewTurn, attempt: Attempt, now: datetime) -> TurnBroadcast:
        refuse_many_iterations(new.overrides.max_infer_iters, self._deps.limits.infer_iters)
        config = new.config_with(view.agent.agent_config)
        equipment = self._equipment(ref, config, attempt)
        lock = view.session.lock
        if lock.order is not None and self._is_running(ref.turn(lock.order), lock, now):
            raise TurnRunning(lock.order)
        self._deps.limits.of_day.check(ref.tenant)
        state = self._new_state(view.session, new, config, now)
        session = view.session.used(now)
        change = opened(session, state, now + self._deps.leases.duration, attempt.fingerprint)
        segments = view.segments
        old: TurnState | None = None
        if lock.order is not None:
            old = self._ended_holder(ref.turn(lock.order), is_overdue=lock.is_overdue(now), now=now)
            ended = closed(view.session, old, view.open_segment)
            change = superseding(change, ended)
            segments = view.segments_with(*ended.segments)
        remembered = put_remembered(ref, attempt, {"turn_id": state.turn_id}, now, view.remembered)
        with self._executor.permit(ref.tenant) as permit:
            committed = self._store.commit(ref, change._replace(remembered=remembered))
            launch = RunRequest(
                ref=ref.turn(state.order),
                session=committed.session,
                state=committed.turns[-1],
                config=config,
                segments=segments,
                first_events=numbered(state),
                provider_data=attempt.provider_data,
                equipment=equipment,
            )
            broadcast = self._runner.launch(launch, permit)
        if old is not None:
            warn_of_failure(ref.turn(old.order), old)
            wake(self._deps.supervisor, old.token)
        return broadcast

    def _equipment(self, ref: SessionRef, config: AgentConfig, attempt: Attempt) -> Equipment:
        """Return the equipment of a turn of this configuration. Raises InvalidRequest if a part is not available."""
        route = self._deps.route(ref.tenant, config.model)
        tools = self._deps.tools.of(ref, attempt.provider_data)
        capabilities = partial(self._deps.inference.capabilities, route.targets)
        offer = supported_offer(route.with_prompt_format(config), tools.of_tenant.offered, capabilities)
        self._deps.shields.refuse_unusable(ref.tenant, config)
        return Equipment(route, tools, offer)

    def _is_running(self, ref: TurnRef, lock: SessionLock, now: datetime) -> bool:
        """Return whether a process runs the turn: this one, or another one that holds a live lease."""
        is_live = self._deps.leases.seen(ref, lock, now).is_live(now)
        return is_live or self._deps.leases.is_held(ref, lock.fence)

    def _resume(
        self, ref: TurnRef, view: SessionView, responses: Sequence[ToolResponse], attempt: Attempt, now: datetime
    ) -> TurnBroadcast:
        state = view.state
        if state is None:
            raise NotFound("turn", ref.turn_id)
        state.check_content()
        config = state.config_with(view.agent.agent_config)
        equipment: Equipment | None = None
        if state.status is TurnStatus.COMPLETED:
            refuse_reopening(view.session, state, responses, self._deps.limits.infer_iters)
            step = answered_in_text(state, responses, self._deps.ids.new_id(), now)
            equipment = self._equipment(ref, config, attempt)
            self._deps.limits.check_turn(state)
            self._deps.limits.of_day.check(ref.tenant)
        else:
            self._refuse_unless_awaiting(ref, view, state, now)
            step = answered_by_client(state, responses, self._deps.ids.new_id(), now)
        answered = Answered(step, tuple(dict.fromkeys(config.input_shields)), attempt.fingerprint)
        session, lease_until = view.session.used(now), now + self._deps.leases.duration
        if state.status is TurnStatus.COMPLETED:
            change = reopened(session, state, answered, lease_until, view.segments)
        else:
            change = resumed(session, state, answered, lease_until)
        remembered = put_remembered(ref, attempt, {"turn_id": state.turn_id}, now, view.remembered)
        with self._executor.permit(ref.tenant, comes_first=True) as permit:
            committed = self._store.commit(ref, change._replace(remembered=remembered))
            launch = RunRequest(
                ref=ref,
                session=committed.session,
                state=committed.turns[0],
                config=config,
                segments=view.segments_with(*change.segments),
                first_events=numbered(committed.turns[0])[-1:],
                before=events_before_resume(state, is_detailed=state.keeps_details),
                provider_data=attempt.provider_data,
                equipment=equipment,
            )
            broadcast = self._runner.launch(launch, permit)
        wake(self._deps.supervisor, state.token)
        return broadcast

    def _refuse_unless_awaiting(self, ref: TurnRef, view: SessionView, state: TurnState, now: datetime) -> None:
        if state.status is not TurnStatus.AWAITING_INPUT:
            raise TurnNotAwaiting(state.turn_id, state.status)
        if view.session.lock.is_overdue(now):
            expired = ended_unanswered(state, TurnStatus.EXPIRED, now)
            self._store.commit(ref, closed(view.session, expired, view.open_segment))
            raise TurnNotAwaiting(state.turn_id, TurnStatus.EXPIRED)

    def _resume_by_messages(
        self,
        ref: SessionRef,
        view: SessionView,
        messages: Sequence[ToolResponseMessage],
        attempt: Attempt,
        now: datetime,
    ) -> TurnBroadcast:
        """Resume the waiting turn by a new turn's tool messages, as clients did before there was a resume."""
        lock = view.session.lock
        if lock.state is LockState.RUNNING and view.session.last_request == attempt.fingerprint:
            raise TurnRunning(str(lock.order))  # by this very request, which a second read by its key will find
        if lock.state is not LockState.AWAITING or lock.order is None:
            raise CallsMismatch(
                "messages: no turn of this session awaits tool responses; send a user message", ("messages",)
            )
        waiting = ref.turn(lock.order)
        view = self._store.view(ref, self._deps.read_tokens, attempt, lock.order)
        view.check_turn(lock.order)
        if earlier := self._earlier(waiting, view, attempt, now, is_resume=True):
            return earlier
        pending = view.state.pending_calls if view.state else ()
        names = {call.call_id: call.tool_name for call in pending}
        responses = [
            ToolResponse(call_id=m.call_id, tool_name=names.get(m.call_id, ""), content=m.content) for m in messages
        ]
        return self._resume(waiting, view, responses, attempt, now)

    def _earlier(
        self, ref: SessionRef, view: SessionView, attempt: Attempt, now: datetime, *, is_resume: bool
    ) -> TurnBroadcast | None:
        """Return the broadcast of the turn this very request opened or resumed before."""
        answer = answer_in(view.remembered, attempt, now)
        if answer is not None:
            return self._joining.join(ref.turn(answer["turn_id"]), is_resume=is_resume)
        session = view.session
        if attempt.is_retry and session.last_request == attempt.fingerprint and session.last_order is not None:
            within = timedelta(seconds=attempt.repeated_within_s)
            return self._joining.join_recent(ref.turn(session.last_order), within, is_resume=is_resume)
        return None

    def _ended_holder(self, ref: TurnRef, *, is_overdue: bool, now: datetime) -> TurnState:
        """Return the ended state of the turn that holds the lock without a right to continue."""
        _, state = self._store.load(ref)
        if state.status is TurnStatus.IN_PROGRESS:
            return ended_unanswered(state, TurnStatus.FAILED, now)
        return ended_unanswered(state, TurnStatus.EXPIRED if is_overdue else TurnStatus.CANCELLED, now)

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


def _settled(act: Callable[[], TurnBroadcast], attempt: Attempt) -> TurnBroadcast:
    """Return the result of `act`, repeated after conflicts with other writers. Raises StoreUnavailable if all fail."""
    was_refused = False

    def act_on_both() -> TurnBroadcast:
        nonlocal was_refused
        try:
            return act()
        except (TurnRunning, TurnNotAwaiting) as refused:
            # Header, turn and key are read in parallel, not atomically. A repeated request may be refused because of
            # its own first copy, which a second read will find.
            if was_refused or not (attempt.is_retry or attempt.key):
                raise
            was_refused = True
            raise ReadAgain from refused

    return retried(act_on_both, "the session changes too fast, try again", TRIES_OF_TURNS)
