"""Attending to a turn that no request looks after: expire it, take it over, or see that it needs nothing."""

from datetime import datetime, timedelta

from turnstone.domain.errors import Conflict, LeaseLost, NotFound, Overloaded
from turnstone.domain.events import TurnFailed
from turnstone.domain.sessions import LockState, Session, TurnRef
from turnstone.domain.turns import Failure, TurnState, TurnStatus
from turnstone.services.executor import TurnExecutor
from turnstone.services.replay import replayed
from turnstone.services.running import Launch, RunnerDeps, TurnRunner
from turnstone.services.transitions import closed, given_up, taken_over

MAX_TAKEOVERS = 3
SOON = timedelta(seconds=1)


class Recovery:
    def __init__(self, deps: RunnerDeps, runner: TurnRunner, executor: TurnExecutor) -> None:
        self._deps = deps
        self._runner = runner
        self._executor = executor

    def attend(self, ref: TurnRef) -> datetime | None:
        """Do what the turn needs now; return when to look again, None if never. Raises StoreUnavailable."""
        try:
            session, state = self._deps.turns.load(ref)
        except NotFound as missing:
            self._tell_gone(ref, missing)
            return None
        if state.status.is_terminal:
            self._tell_listeners(ref, state)
            return None
        is_waiting = state.status is TurnStatus.AWAITING_INPUT
        if session.lock.order != state.order or is_waiting is not (session.lock.state is LockState.AWAITING):
            # header and turn were read at different moments
            return self._deps.clock.now() + SOON
        try:
            return self._acted_on(ref, session, state)
        except (Conflict, LeaseLost, Overloaded):
            return self._deps.clock.now() + SOON
        except NotFound as missing:
            self._tell_gone(ref, missing)
            return None

    def _acted_on(self, ref: TurnRef, session: Session, state: TurnState) -> datetime | None:
        now = self._deps.clock.now()
        if session.lock.state is LockState.AWAITING:
            if not session.lock.is_overdue(now):
                self._tell_listeners(ref, state)
                return session.lock.await_until
            self._give_up(ref, session, given_up(state, TurnStatus.EXPIRED, now))
            return None
        if session.lock.is_live(now):
            return session.lock.lease_until
        if self._deps.leases.is_held(ref, session.lock.fence):
            # this process stood still for a while, but it still runs the turn
            self._deps.turns.renew(ref, session.lock.fence, now + self._deps.leases.duration)
            return now + self._deps.leases.duration
        if state.takeovers >= MAX_TAKEOVERS:
            self._give_up(ref, session, given_up(state, TurnStatus.FAILED, now))
            return None
        return self._take_over(ref, session, state, now)

    def _take_over(self, ref: TurnRef, session: Session, state: TurnState, now: datetime) -> datetime | None:
        """Go on from the last stored step, in this process, under a fence that shuts out the old one."""
        view = self._deps.turns.view(ref, self._deps.context_tokens)
        with self._executor.place() as place:
            change = taken_over(session, state, now + self._deps.leases.duration)
            committed = self._deps.turns.commit(ref, change)
            going_on = committed.turns[0]
            launch = Launch(
                ref=ref,
                session=committed.session,
                state=going_on,
                config=state.overrides.applied_to(view.agent.agent_config),
                segments=view.segments,
                told=replayed(going_on),
            )
            self._runner.launch(launch, place)
        return committed.session.lock.lease_until

    def _give_up(self, ref: TurnRef, session: Session, ended: TurnState) -> None:
        view = self._deps.turns.view(ref, self._deps.context_tokens)
        self._deps.turns.commit(ref, closed(session, ended, view.open_segment))
        self._tell_listeners(ref, ended)

    def _tell_listeners(self, ref: TurnRef, state: TurnState) -> None:
        """Tell those who wait here for a turn that ended elsewhere."""
        self._deps.broadcasts.tell_waiting(ref, *replayed(state))

    def _tell_gone(self, ref: TurnRef, missing: NotFound) -> None:
        failure = Failure(kind="ended", message=str(missing))
        self._deps.broadcasts.tell_waiting(ref, TurnFailed(turn_id=ref.turn_id, failure=failure))
