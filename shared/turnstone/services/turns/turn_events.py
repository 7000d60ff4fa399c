"""A turn's past events after a number, followed by the live ones."""

import logging
from functools import partial

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound, RecordTooNew, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.streams.broadcast import Broadcasts, TurnBroadcast
from turnstone.services.streams.event_cursor import AnyCursor, EventCursor
from turnstone.services.streams.following import Following
from turnstone.services.streams.replay import gone_event, lost_event
from turnstone.services.turns.supervision import watch_if_due
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)


class TurnEvents:
    def __init__(
        self, turns: TurnStore, rules: AccessRules, supervisor: Supervisor, clock: Clock, following: Following
    ) -> None:
        self._turns = turns
        self._rules = rules
        self._supervisor = supervisor
        self._clock = clock
        self._following = following

    @property
    def _broadcasts(self) -> Broadcasts:
        return self._following.broadcasts

    def follow(self, caller: Caller, ref: TurnRef, after: int) -> TurnBroadcast:
        """Return a broadcast of the turn's events after that number, until it ends or waits for its client.

        Raises:
            NotFound: the turn, its session or its agent.
            ContentLost: the turn's content.
        """
        visited = self._turns.visit(ref)
        check_session(self._rules, caller, visited.session, visited.agent_owner, self._clock.now())
        state, restore = visited.turn()
        watch_if_due(self._supervisor, self._clock, ref, visited.session)
        state.check_content()
        cursor = EventCursor(ref, after)
        cursor.broadcast.restore = restore
        return self.fed(cursor, state)

    def fed(self, cursor: AnyCursor, state: TurnState) -> TurnBroadcast:
        """Return the cursor's broadcast, fed by the turn's run here, or by its stored states from this one on."""
        if not self._try_attach(cursor) and cursor.publish_state(state):
            self._following.poll(cursor.broadcast.ref, partial(self._poll, cursor), cursor.broadcast.close)
        return cursor.broadcast

    def _try_attach(self, cursor: AnyCursor) -> bool:
        running = self._broadcasts.find(cursor.broadcast.ref)
        if running is None or not running.is_run:
            return False
        cursor.attach(running)
        return True

    def _poll(self, cursor: AnyCursor) -> bool:
        """Publish the turn's stored news; return whether to poll again: it still runs and its client still reads."""
        ref = cursor.broadcast.ref
        if cursor.broadcast.is_left or cursor.broadcast.is_over or self._try_attach(cursor):
            return False
        try:
            session, state = self._turns.load(ref)
        except NotFound as missing:
            cursor.broadcast.close(gone_event(missing, ref.turn_id))
            return False
        except RecordTooNew as newer:
            log.warning("turn %s can no longer be followed: %s", ref.turn_id, newer)
            cursor.broadcast.close(lost_event(ref.turn_id))
            return False
        except StoreUnavailable as unavailable:
            log.warning("polling turn %s failed, will be tried again: %s", ref.turn_id, unavailable)
            return True
        watch_if_due(self._supervisor, self._clock, ref, session)
        return cursor.publish_state(state)
