"""Following turns that other processes run, for those who wait for them here, by a look at the store now and then."""

import logging
from collections.abc import Callable
from functools import partial
from threading import Condition, Thread

from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.sessions import TurnRef
from turnstone.domain.turns import TurnStatus
from turnstone.services.broadcast import Broadcasts
from turnstone.services.replay import replayed, told_as_gone
from turnstone.store.turns import TurnStore

log = logging.getLogger(__name__)
Look = Callable[[], bool]


class Following:
    """Looks every so many seconds, in one thread that lives while there is something to look at."""

    def __init__(self, turns: TurnStore, broadcasts: Broadcasts, every_s: float) -> None:
        self._turns = turns
        self.broadcasts = broadcasts
        self._every_s = every_s
        self._changed = Condition()
        self._followed: dict[TurnRef | Look, Look] = {}
        self._is_looking = False

    def follow(self, ref: TurnRef) -> None:
        """Tell those who wait here for the turn how it ended, or where it waits for its client, once it does."""
        self._keep_looking(ref, partial(self._goes_on, ref))

    def look(self, look: Look) -> None:
        """Take another look at something each time, as long as that is told to go on."""
        self._keep_looking(look, look)

    def _keep_looking(self, name: TurnRef | Look, look: Look) -> None:
        with self._changed:
            self._followed[name] = look
            if self._is_looking:
                return
            self._is_looking = True
        Thread(target=self._look_on, name="following", daemon=True).start()

    def _look_on(self) -> None:
        try:
            while followed := self._still_followed():
                for name, look in followed:
                    if not look():
                        with self._changed:
                            self._followed.pop(name, None)
        except BaseException:
            with self._changed:  # the next who wants to follow gets a new thread
                self._followed.clear()
                self._is_looking = False
            raise

    def _still_followed(self) -> "tuple[tuple[TurnRef | Look, Look], ...]":
        """Wait for the time of the next look; return what to look at, nothing if this thread is not needed any more."""
        with self._changed:
            self._changed.wait(self._every_s)
            self._is_looking = bool(self._followed)
            return tuple(self._followed.items())

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
