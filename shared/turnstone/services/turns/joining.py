"""Join a running or ended turn: the answer to a request that was sent before."""

from datetime import timedelta

from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.events import TurnEvent
from turnstone.domain.turns.turns import TurnStatus
from turnstone.services.streams.broadcast import TurnBroadcast, forward_whole
from turnstone.services.streams.replay import replayed, replayed_since_resume
from turnstone.services.turns.run_request import RunnerDeps


class Joining:
    def __init__(self, deps: RunnerDeps) -> None:
        self._deps = deps

    def join(self, ref: TurnRef, *, is_resume: bool) -> TurnBroadcast:
        """Return the broadcast of the turn's events: since its resume for a repeated resume, else from the start.

        Raises:
            NotFound: the turn is gone.
        """
        running_here = self._deps.broadcasts.find(ref)
        if running_here is not None:
            return running_here if is_resume or not running_here.before else _with_earlier(running_here)
        session, state = self._deps.turns.load(ref)
        if state.status is not TurnStatus.IN_PROGRESS:
            return _replay(ref, replayed_since_resume(state) if is_resume else replayed(state))
        return self._expected(ref, session)

    def is_recent(self, ref: TurnRef, within: timedelta) -> bool:
        """Return whether the turn runs or came to rest `within` that time.

        A client retries at once, or after a timeout; a later request with an equal body is a new one.
        """
        if self._deps.broadcasts.find(ref) is None:
            _, state = self._deps.turns.load(ref)
            at_rest = state.status is not TurnStatus.IN_PROGRESS
            if at_rest and self._deps.clock.now() - state.last_moment > within:
                return False
        return True

    def _expected(self, ref: TurnRef, session: Session) -> TurnBroadcast:
        """Return a broadcast for a turn of another process; a takeover by this one publishes all its events there."""
        broadcast = self._deps.broadcasts.expect(ref)
        lock = self._deps.leases.seen(ref, session.lock, self._deps.clock.now())
        self._deps.follow(ref)  # first: a retry after a failed call of the supervisor finds the turn followed
        self._deps.supervisor.watch(ref, lock)
        return broadcast


def _replay(ref: TurnRef, events: tuple[TurnEvent, ...]) -> TurnBroadcast:
    broadcast = TurnBroadcast(ref)
    broadcast.close(*events)
    return broadcast


def _with_earlier(running: TurnBroadcast) -> TurnBroadcast:
    whole = TurnBroadcast(running.ref)
    forward_whole(running, whole)
    return whole
