"""Turns: start one, resume one. Every refusal happens here, before the first event."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
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
from turnstone.domain.provider_data import HEADERS as PROVIDER_DATA_HEADERS
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.lending import lent_banks, names_banks
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import NewTurn, TurnState, TurnStatus
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import events_before_resume, numbered
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.tools.tool_running import ToolCaller
from turnstone.services.turns.joining import Joining
from turnstone.services.turns.opening import Opener
from turnstone.services.turns.run_request import (
    Equipment,
    InBackground,
    Opening,
    RunnerDeps,
    RunRequest,
)
from turnstone.services.turns.running import TurnRunner
from turnstone.services.turns.supervision import wake, watch_if_due
from turnstone.services.turns.transitions import (
    Answered,
    answered_by_client,
    answered_in_text,
    closed,
    ended_unanswered,
    refuse_reopening,
    reopened,
    resumed,
)
from turnstone.store.layout.contention import TRIES_OF_TURNS, ReadAgain, retried
from turnstone.store.layout.idempotency import answer_in, put_remembered
from turnstone.store.sessions.turns import SessionView

if TYPE_CHECKING:  # not where other processes run the queued turns, and no request waits for a turn
    from turnstone.services.streams.session_queues import SessionQueues
    from turnstone.services.threads.queued_runs import QueuedRuns

log = logging.getLogger(__name__)
KEYS_IN_BACKGROUND = (
    f"{PROVIDER_DATA_HEADERS[0]}: a turn in the background runs in another process, and the keys are never stored; "
    "send the turn without Prefer: respond-async, or register the keys"
)
Result = TypeVar("Result")


class Turns:
    def __init__(
        self,
        deps: RunnerDeps,
        rules: AccessRules,
        runner: TurnRunner,
        executor: TurnExecutor,
        queued: "QueuedRuns | None",
        queues: "Callable[[], SessionQueues]",
    ) -> None:
        """Take the queue of background turns here, None where other processes run them all; and those of sessions."""
        self._queues = queues
        self._deps = deps
        self._queued = queued
        self._rules = rules
        self._store = deps.turns
        self._runner = runner
        self._executor = executor
        self._joining = Joining(deps)
        self._opener = Opener(deps, runner, executor)

    def start(self, caller: Caller, ref: SessionRef, opening: Opening | NewTurn, attempt: Attempt) -> TurnBroadcast:
        """Open a turn and return its broadcast; the turn runs independent of its subscribers.

        A new turn alone is opened at once, or refused. A repeated request joins the turn that it opened. Tool responses
        to the pending calls resume their turn.

        Raises:
            NotFound: the session or its agent.
            InvalidRequest: the turn requests a feature that is not available.
            TurnRunning: another turn of the session runs, or has yet to run.
            TurnAwaited: the same, and the request may wait for its end by `SessionQueues`.
            BesideConflict: a record beside the turn can't be stored.
            Overloaded: every slot for a turn is taken.
            DayLimitReached: the tenant has spent its tokens of the day.
        """
        opening = _opening(opening, caller)
        responses = _resuming(opening.new)
        if responses and len(responses) != len(opening.new.messages):
            raise InvalidRequest(
                "messages: tool responses and user messages can't be sent in one turn; send one kind", ("messages",)
            )

        fetched = cache(partial(self._opener.fetched, ref.tenant, opening))  # once, however often the opening is tried

        def act() -> TurnBroadcast:
            view, now = self._viewed(caller, ref, opening, attempt)
            if earlier := self._earlier_ref(ref, view, attempt, now, is_own=opening.is_session_own):
                return self._joining.join(earlier, is_resume=bool(responses))
            if responses:
                return self._resume_by_messages(ref, view, responses, attempt, now)
            with _repeatable(view, attempt):
                return self._opener.run(self._opener.checked(ref, view, fetched().fitted(view), attempt, now))

        return _settled(act, attempt)

    def start_in_background(
        self, caller: Caller, ref: SessionRef, opening: Opening | NewTurn, attempt: Attempt
    ) -> InBackground:
        """Open a turn that runs without its request: here in a slot, once there is one, otherwise by the supervisor.

        A repeated request gets the turn that it opened, whatever became of it since. Tool responses are refused:
        they resume a turn. For the errors see `start`.
        """
        opening = _opening(opening, caller)
        if _resuming(opening.new):
            raise InvalidRequest("messages: tool responses can't be sent in the background", ("messages",))
        if attempt.provider_data is not NO_PROVIDER_DATA and not self._deps.runs_unattended:
            raise InvalidRequest(KEYS_IN_BACKGROUND, PROVIDER_DATA_HEADERS[:1])

        fetched = cache(partial(self._opener.fetched, ref.tenant, opening))

        def act() -> InBackground:
            view, now = self._viewed(caller, ref, opening, attempt)
            if earlier := self._earlier_ref(ref, view, attempt, now, is_own=opening.is_session_own):
                return self._found(earlier)
            with _repeatable(view, attempt):
                checked = self._opener.checked(ref, view, fetched().fitted(view), attempt, now)
                if self._queued is None:
                    return self._opener.queue(checked)
                try:
                    running = self._opener.run(checked)
                except Overloaded:
                    return self._opener.queue(checked, self._queued.reserve(ref.tenant))
                return InBackground(running.ref, checked.state, is_queued=False)

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

    def joined(self, ref: TurnRef, attempt: Attempt) -> TurnBroadcast | None:
        """Return the broadcast of the turn that an earlier attempt of the request opened, None if that is too long ago.

        Raises NotFound if the turn is gone.
        """
        is_recent = self._joining.is_recent(ref, timedelta(seconds=attempt.repeated_within_s))
        return self._joining.join(ref, is_resume=False) if is_recent else None

    def joined_in_background(self, ref: TurnRef, attempt: Attempt) -> InBackground | None:
        """Return the turn that runs without its request; see `joined`."""
        is_recent = self._joining.is_recent(ref, timedelta(seconds=attempt.repeated_within_s))
        return self._found(ref) if is_recent else None

    def hand_off(self, ref: TurnRef) -> None:
        """Hand the turn off to another process, because this one ends soon, and notify the subscribers here."""
        self._runner.hand_off(ref, is_watched=False)

    def _viewed(
        self, caller: Caller, ref: SessionRef, opening: Opening, attempt: Attempt
    ) -> tuple[SessionView, datetime]:
        """Return the session, stored or about to be created, and the time.

        Raises NotFound for session or agent, and TurnAwaited if other requests have waited longer for it.
        """
        if opening.patience_s:
            self._queues().refuse_overtaking(ref, opening.patience_s)
        view = self._store.view(
            ref,
            self._deps.read_tokens_by(opening.new.policy),
            attempt,
            opening.turn_id,
            new=opening.new_session,
            beside=opening.reads,
        )
        now = self._deps.clock.now()
        check_session(self._rules, caller, view.session, view.agent_owner, now)
        return view, now

    def _found(self, ref: TurnRef) -> InBackground:
        """Return the turn of an earlier attempt."""
        session, state = self._store.load(ref)
        watch_if_due(self._deps.supervisor, self._deps.clock, ref, session)
        is_queued = session.lock.state is LockState.QUEUED and session.lock.order == state.order
        return InBackground(ref, state, is_queued=is_queued)

    def _resume(
        self, ref: TurnRef, view: SessionView, responses: Sequence[ToolResponse], attempt: Attempt, now: datetime
    ) -> TurnBroadcast:
        state = view.state
        if state is None:
            raise NotFound("turn", ref.turn_id)
        state.check_content()
        config = state.config_with(view.agent.agent_config)
        banks = lent_banks(view.agent.agent_config, view.agent_owner, view.session, state)
        equipment: Equipment | None = None
        if state.status is TurnStatus.COMPLETED:
            refuse_reopening(view.session, state, responses, self._deps.limits.infer_iters)
            step = answered_in_text(state, responses, self._deps.ids.new_id(), now)
            equipment = self._opener.equipment(
                ref.session, config, attempt, ToolCaller(state.chain, banks, named_by=state.named_by)
            )
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
                banks=banks,
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
        earlier = self._earlier_ref(ref, view, attempt, now)
        return None if earlier is None else self._joining.join(earlier, is_resume=is_resume)

    def _earlier_ref(
        self, ref: SessionRef, view: SessionView, attempt: Attempt, now: datetime, *, is_own: bool = False
    ) -> TurnRef | None:
        """Return the turn this very request opened or resumed before; with `is_own`, in a session of its own."""
        answer = answer_in(view.remembered, attempt, now)
        if answer is not None:
            return ref.turn(answer["turn_id"])
        session = view.session
        if is_own and session.last_request == attempt.fingerprint and session.last_order is not None:
            return ref.turn(session.last_order)
        if attempt.is_retry and session.last_request == attempt.fingerprint and session.last_order is not None:
            turn = ref.turn(session.last_order)
            return turn if self._joining.is_recent(turn, timedelta(seconds=attempt.repeated_within_s)) else None
        return None


def _resuming(new: NewTurn) -> list[ToolResponseMessage]:
    """Return the tool responses that resume a paused turn; where calls end turns, they are messages as any others."""
    if new.policy.at_client_calls != "pause":
        return []
    return [message for message in new.messages if isinstance(message, ToolResponseMessage)]


def _opening(opening: Opening | NewTurn, caller: Caller) -> Opening:
    """Return the opening; a request that names memory banks keeps its caller's identity, which decides about them."""
    opened = Opening(opening) if isinstance(opening, NewTurn) else opening
    if not names_banks(opened.new):
        return opened
    return opened._replace(new=opened.new.model_copy(update={"named_by": owner_of(caller)}))


@contextmanager
def _repeatable(view: SessionView, attempt: Attempt) -> Iterator[None]:
    """Mark a refusal as final where a retry of the request would be taken for that of an earlier, equal one."""
    try:
        yield
    except (TurnRunning, Overloaded, StoreUnavailable) as refused:
        refused.may_be_repeated = view.session.last_request != attempt.fingerprint
        raise


def _settled(act: Callable[[], Result], attempt: Attempt) -> Result:
    """Return the result of `act`, repeated after conflicts with other writers. Raises StoreUnavailable if all fail."""
    was_refused = False

    def act_on_both() -> Result:
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
