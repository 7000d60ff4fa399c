"""Following turns that other processes run, for those who wait for them here, by a look at the store now and then."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Condition, Thread
from typing import NamedTuple

from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import replayed, told_as_gone, told_as_lost
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)
Look = Callable[[], bool]
End = Callable[[TurnFailed], None]


class Followed(NamedTuple):
    """Something that is looked at again and again.

    Attributes:
        look: tells whether to look again.
        end: tells those who wait, where a look fails so that none can come to anything.
    """

    ref: TurnRef
    look: Look
    end: End


class Following:
    """Looks every so many seconds, in one thread that lives while there is something to look at."""

    def __init__(self, turns: TurnStore, broadcasts: Broadcasts, every_s: float) -> None:
        self._turns = turns
        self.broadcasts = broadcasts
        self._every_s = every_s
        self._changed = Condition()
        self._followed: dict[TurnRef | Look, Followed] = {}
        self._is_looking = False

    def follow(self, ref: TurnRef) -> None:
        """Tell those who wait here for the turn how it ended, or where it waits for its client, once it does."""
        self._keep_looking(ref, Followed(ref, partial(self._goes_on, ref), partial(self.broadcasts.tell_waiting, ref)))

    def look(self, ref: TurnRef, look: Look, end: End) -> None:
        """Take another look at the turn each time, as long as that is told to go on; for `end` see there."""
        self._keep_looking(look, Followed(ref, look, end))

    def _keep_looking(self, name: TurnRef | Look, followed: Followed) -> None:
        with self._changed:
            self._followed[name] = followed
            if self._is_looking:
                return
            self._is_looking = True
        Thread(target=self._look_on, name="following", daemon=True).start()

    def _look_on(self) -> None:
        while followed := self._still_followed():
            for name, each in followed:
                if not _goes_on_well(each):
                    self._let_go(name, each)

    def _still_followed(self) -> "tuple[tuple[TurnRef | Look, Followed], ...]":
        """Wait for the time of the next look; return what to look at, nothing if this thread is not needed any more."""
        with self._changed:
            self._changed.wait(self._every_s)
            self._is_looking = bool(self._followed)
            return tuple(self._followed.items())

    def _let_go(self, name: TurnRef | Look, followed: Followed) -> None:
        """Look at it no more, unless somebody has come for it since this look began."""
        with self._changed:
            if self._followed.get(name) is followed:
                del self._followed[name]

    def _goes_on(self, ref: TurnRef) -> bool:
        """Tell whether there is still something to wait for, and somebody here who waits."""
        broadcast = self.broadcasts.find(ref)
        if broadcast is None or broadcast.is_run:
            return False
        try:
            _, state = self._turns.load(ref)
        except NotFound as missing:
            self.broadcasts.tell_waiting(ref, told_as_gone(missing, ref.turn_id))
            return False
        except StoreUnavailable as unavailable:
            log.warning("turn %s is looked at again later: %s", ref.turn_id, unavailable)
            return True
        if state.status is TurnStatus.IN_PROGRESS:
            return True
        self.broadcasts.tell_waiting(ref, *replayed(state))
        return False


def _goes_on_well(followed: Followed) -> bool:
    """Look; tell whether to look again. A look that fails is the last one, and those who wait are told so."""
    looked = guarded(followed.look)
    if isinstance(looked, Returned):
        return looked.value
    turn_id = followed.ref.turn_id
    log.error("turn %s can't be followed any more", turn_id, exc_info=looked.error)
    ended = guarded(partial(followed.end, told_as_lost(turn_id)))
    if isinstance(ended, Raised):
        log.error("who follows turn %s can't be told", turn_id, exc_info=ended.error)
    return False
