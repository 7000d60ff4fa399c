"""Following turns that other processes run, by polling the store, for the requests that wait for them here."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Condition, Thread
from typing import NamedTuple

from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.outcome import Raised, guarded
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import gone_event, lost_event, replayed
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)
Poll = Callable[[], bool]
End = Callable[[TurnFailed], None]


class Followed(NamedTuple):
    """A turn that is polled until its poll returns false.

    Attributes:
        poll: publishes the turn's news; returns whether to poll again.
        end: publishes the failure to the waiting requests, after a poll that raised.
    """

    ref: TurnRef
    poll: Poll
    end: End


class Following:
    """Polls every `every_s` seconds, in one thread that lives while a turn is followed."""

    def __init__(self, turns: TurnStore, broadcasts: Broadcasts, every_s: float) -> None:
        self._turns = turns
        self.broadcasts = broadcasts
        self._every_s = every_s
        self._changed = Condition()
        self._followed: dict[TurnRef | Poll, Followed] = {}
        self._is_polling = False

    def follow(self, ref: TurnRef) -> None:
        """Publish the turn's end or pause to the requests that wait for it here, once it is stored."""
        self._keep_polling(
            ref, Followed(ref, partial(self._poll_turn, ref), partial(self.broadcasts.notify_waiting, ref))
        )

    def poll(self, ref: TurnRef, poll: Poll, end: End) -> None:
        """Call `poll` at each interval until it returns false; for `end` see `Followed`."""
        self._keep_polling(poll, Followed(ref, poll, end))

    def _keep_polling(self, name: TurnRef | Poll, followed: Followed) -> None:
        with self._changed:
            self._followed[name] = followed
            if self._is_polling:
                return
            self._is_polling = True
        Thread(target=self._poll_all, name="following", daemon=True).start()

    def _poll_all(self) -> None:
        while followed := self._still_followed():
            for name, each in followed:
                if not _polled(each):
                    self._let_go(name, each)

    def _still_followed(self) -> "tuple[tuple[TurnRef | Poll, Followed], ...]":
        """Wait for the next interval; return the followed turns, none if this thread may end."""
        with self._changed:
            self._changed.wait(self._every_s)
            self._is_polling = bool(self._followed)
            return tuple(self._followed.items())

    def _let_go(self, name: TurnRef | Poll, followed: Followed) -> None:
        """Stop polling the turn, unless another request has begun to follow it since this poll began."""
        with self._changed:
            if self._followed.get(name) is followed:
                del self._followed[name]

    def _poll_turn(self, ref: TurnRef) -> bool:
        """Read the turn and publish its end; return whether it is still running and a request waits for it."""
        broadcast = self.broadcasts.find(ref)
        if broadcast is None or broadcast.is_run:
            return False
        try:
            _, state = self._turns.load(ref)
        except NotFound as missing:
            self.broadcasts.notify_waiting(ref, gone_event(missing, ref.turn_id))
            return False
        except StoreUnavailable as unavailable:
            log.warning("polling turn %s failed, will be tried again: %s", ref.turn_id, unavailable)
            return True
        if state.status is TurnStatus.IN_PROGRESS:
            return True
        self.broadcasts.notify_waiting(ref, *replayed(state))
        return False


def _polled(followed: Followed) -> bool:
    """Poll once; return whether to poll again. A poll that raises is the last, and ends the waiting requests."""
    outcome = guarded(followed.poll)
    if not isinstance(outcome, Raised):
        return outcome.value
    turn_id = followed.ref.turn_id
    log.error("turn %s can't be followed any more", turn_id, exc_info=outcome.error)
    ended = guarded(partial(followed.end, lost_event(turn_id)))
    if isinstance(ended, Raised):
        log.error("cannot notify followers of turn %s", turn_id, exc_info=ended.error)
    return False
