"""Joining a turn that is under way, or over: the answer to a request that was sent before."""

from datetime import timedelta

from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.events import TurnEvent
from turnstone.domain.turns.turns import TurnStatus
from turnstone.services.streams.broadcast import TurnBroadcast, tell_whole
from turnstone.services.streams.replay import replayed, replayed_since_resume
from turnstone.services.turns.run_request import RunnerDeps


class Joining:
    def __init__(self, deps: RunnerDeps) -> None:
        self._deps = deps

    def join(self, ref: TurnRef, *, is_resume: bool) -> TurnBroadcast:
        """Return where the turn's events are told: since its resume if that is repeated, else from the start.

        Raises:
            NotFound: the turn is gone.
        """
        running_here = self._deps.broadcasts.find(ref)
        if running_here is not None:
            return running_here if is_resume or not running_here.before else _with_earlier(running_here)
        session, state = self._deps.turns.load(ref)
        if state.status is not TurnStatus.IN_PROGRESS:
            return _told_again(ref, replayed_since_resume(state) if is_resume else replayed(state))
        return self._expected(ref, session)

    def join_recent(self, ref: TurnRef, within: timedelta, *, is_resume: bool) -> TurnBroadcast | None:
        """Return what `join` returns if the turn goes on or has just come to rest, None if that is long ago.

        A client sends a request again at once, or after it waited in vain; later, equal words are words of their own.
        """
        if self._deps.broadcasts.find(ref) is None:
            _, state = self._deps.turns.load(ref)
            at_rest = state.status is not TurnStatus.IN_PROGRESS
            if at_rest and self._deps.clock.now() - state.last_moment > within:
                return None
        return self.join(ref, is_resume=is_resume)

    def _expected(self, ref: TurnRef, session: Session) -> TurnBroadcast:
        """Wait for a turn that another process runs, or ran: whoever takes it over here will tell it all."""
        broadcast = self._deps.broadcasts.expect(ref)
        lock = self._deps.leases.seen(ref, session.lock, self._deps.clock.now())
        self._deps.follow(ref)  # first: who joins again, because the supervisor could not be told, finds it followed
        self._deps.supervisor.watch(ref, lock)
        return broadcast


def _told_again(ref: TurnRef, events: tuple[TurnEvent, ...]) -> TurnBroadcast:
    broadcast = TurnBroadcast(ref)
    broadcast.close(*events)
    return broadcast


def _with_earlier(running: TurnBroadcast) -> TurnBroadcast:
    whole = TurnBroadcast(running.ref)
    tell_whole(running, whole)
    return whole
