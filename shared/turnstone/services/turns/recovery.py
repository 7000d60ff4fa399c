"""Reconcile a turn without a live request: run it for the first time, expire it, take it over, or do nothing."""

import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Timer

from turnstone.domain.errors import Conflict, LeaseLost, NotFound, Overloaded
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.lending import lent_banks
from turnstone.domain.sessions.sessions import UNCLAIMED_AFTER, LockState, Session
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import gone_event, numbered
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.threads.queued_runs import QueuedRuns
from turnstone.services.turns.run_request import RunnerDeps, RunRequest
from turnstone.services.turns.running import TurnRunner
from turnstone.services.turns.transitions import claimed, closed, ended_unanswered, taken_over
from turnstone.services.turns.turn_failures import warn_of_failure

log = logging.getLogger(__name__)
MAX_TAKEOVERS = 3
SOON = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The status of a turn after a reconciliation, and the time of the next one.

    Attributes:
        status: of the turn, None if it was deleted.
        check_at: time of the next reconciliation, None if the turn has ended.
        run: the broadcast of the run that this process began for the turn, None without one.
    """

    status: TurnStatus | None
    check_at: datetime | None
    run: TurnBroadcast | None = None


class Recovery:
    def __init__(self, deps: RunnerDeps, runner: TurnRunner, executor: TurnExecutor) -> None:
        self._deps = deps
        self._runner = runner
        self._executor = executor
        self.queued = QueuedRuns(executor, self.reconcile)

    def reconcile(self, ref: TurnRef) -> Outlook:
        """Expire the turn, run it in this process, or leave it as it is. Raises StoreUnavailable."""
        try:
            session, state = self._deps.turns.load(ref)
        except NotFound as missing:
            return self._gone(ref, missing)
        if state.status.is_terminal:
            return self._over(ref, state)
        is_waiting = state.status is TurnStatus.AWAITING_INPUT
        if session.lock.order != state.order or is_waiting is not (session.lock.state is LockState.AWAITING):
            # header and turn were read at different moments
            return self._soon(state)
        try:
            return self._acted_on(ref, session, state)
        except (Conflict, LeaseLost):
            return self._soon(state)
        except Overloaded:
            return self._waiting_for_slot(ref, session, state)
        except NotFound as missing:
            return self._gone(ref, missing)

    def see_through(self, ref: TurnRef, until: datetime) -> Outlook:
        """Reconcile the turn, and wait for its run here until that time at most; then hand it off.

        For a supervisor that polls again by itself, at the outlook's time.
        """
        outlook = self.reconcile(ref)
        running = outlook.run or self._deps.broadcasts.find(ref)
        if running is None:
            return outlook
        seconds = (until - self._deps.clock.now()).total_seconds()
        leave = Timer(max(0.0, seconds), self._runner.hand_off, (ref,), {"is_watched": True})
        leave.start()
        try:
            last = list(running.wait())[-1]
        finally:
            leave.cancel()
        if isinstance(last, TurnFailed) and last.failure.kind == "handed_over":
            return Outlook(TurnStatus.IN_PROGRESS, self._deps.clock.now() + SOON)
        return self.reconcile(ref)

    def see_out(self, runs: Iterable[TurnRef], until: datetime) -> None:
        """Wait for these turns' runs here, until that time at most; then hand the others off to the supervisor."""
        for ref in runs:
            running = self._deps.broadcasts.find(ref)
            if running is None:
                continue
            seconds = (until - self._deps.clock.now()).total_seconds()
            leave = Timer(max(0.0, seconds), self._runner.hand_off, (ref,), {"is_watched": False})
            leave.start()
            try:
                deque(running.wait(), maxlen=0)
            finally:
                leave.cancel()

    def _acted_on(self, ref: TurnRef, session: Session, state: TurnState) -> Outlook:
        now = self._deps.clock.now()
        if session.lock.state is LockState.AWAITING:
            if not session.lock.is_overdue(now):
                self._notify_waiting(ref, state)
                return Outlook(state.status, session.lock.await_until)
            return self._end(ref, session, ended_unanswered(state, TurnStatus.EXPIRED, now))
        if session.lock.state is LockState.QUEUED and not state.is_lost:
            return self._claim(ref, session, state, now)
        lock = self._deps.leases.seen(ref, session.lock, now)
        if lock.is_live(now):
            return Outlook(state.status, lock.lease_until)
        if self._deps.leases.is_held(ref, session.lock.fence):
            # this process was suspended for a while, but it still runs the turn
            self._deps.turns.renew(ref, session.lock.fence, now + self._deps.leases.duration)
            return Outlook(state.status, now + self._deps.leases.duration)
        if state.is_lost:
            return self._end(ref, session, ended_unanswered(state, TurnStatus.FAILED, now))
        if state.takeovers_in_vain >= MAX_TAKEOVERS:
            return self._end(ref, session, ended_unanswered(state, TurnStatus.FAILED, now))
        return self._take_over(ref, session, state, now)

    def _claim(self, ref: TurnRef, session: Session, state: TurnState, now: datetime) -> Outlook:
        """Run the queued turn for the first time, in this process; that is no takeover."""
        view = self._deps.turns.view(ref, self._deps.read_tokens_by(state.policy))
        with self._executor.permit(ref.tenant) as permit:
            committed = self._deps.turns.commit(ref, claimed(session, now + self._deps.leases.duration))
            launch = RunRequest(
                ref=ref,
                session=committed.session,
                state=state,
                config=state.config_with(view.agent.agent_config),
                banks=lent_banks(view.agent.agent_config, view.agent_owner, session, state),
                segments=view.segments,
                first_events=numbered(state),
                provider_data=self.queued.take(ref),
            )
            run = self._runner.launch(launch, permit)
        return Outlook(state.status, committed.session.lock.lease_until, run)

    def _take_over(self, ref: TurnRef, session: Session, state: TurnState, now: datetime) -> Outlook:
        """Continue from the last stored step, in this process, under a fence that shuts out the old run."""
        view = self._deps.turns.view(ref, self._deps.read_tokens_by(state.policy))
        with self._executor.permit(ref.tenant) as permit:
            change = taken_over(session, state, now + self._deps.leases.duration)
            committed = self._deps.turns.commit(ref, change)
            continued = committed.turns[0]
            launch = RunRequest(
                ref=ref,
                session=committed.session,
                state=continued,
                config=state.config_with(view.agent.agent_config),
                banks=lent_banks(view.agent.agent_config, view.agent_owner, session, state),
                segments=view.segments,
                first_events=numbered(continued, is_detailed=continued.keeps_details),
            )
            run = self._runner.launch(launch, permit)
        return Outlook(continued.status, committed.session.lock.lease_until, run)

    def _waiting_for_slot(self, ref: TurnRef, session: Session, state: TurnState) -> Outlook:
        """Have the turn wait for a slot. A queued one needs no further check until a later one finds it unclaimed."""
        is_queued = session.lock.state is LockState.QUEUED
        self.queued.wait(ref, comes_first=not is_queued)
        return Outlook(state.status, self._deps.clock.now() + UNCLAIMED_AFTER) if is_queued else self._soon(state)

    def _end(self, ref: TurnRef, session: Session, ended: TurnState) -> Outlook:
        view = self._deps.turns.view(ref, self._deps.read_tokens_by(ended.policy))
        self._deps.turns.commit(ref, closed(session, ended, view.open_segment))
        warn_of_failure(ref, ended)
        return self._over(ref, ended)

    def _over(self, ref: TurnRef, ended: TurnState) -> Outlook:
        self._notify_waiting(ref, ended)
        return Outlook(ended.status, None)

    def _soon(self, state: TurnState) -> Outlook:
        return Outlook(state.status, self._deps.clock.now() + SOON)

    def _notify_waiting(self, ref: TurnRef, state: TurnState) -> None:
        """Publish the turn's end or pause to the requests that wait for it here."""
        self._deps.broadcasts.notify_waiting(ref, *numbered(state, is_detailed=state.keeps_details))

    def _gone(self, ref: TurnRef, missing: NotFound) -> Outlook:
        self._deps.broadcasts.notify_waiting(ref, gone_event(missing, ref.turn_id))
        return Outlook(None, None)
