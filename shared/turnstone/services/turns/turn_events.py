"""A turn's events told again from a number on, and from then on as they happen."""

import logging
from functools import partial

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.streams.broadcast import Broadcasts, TurnBroadcast
from turnstone.services.streams.event_cursor import EventCursor
from turnstone.services.streams.following import Following
from turnstone.services.streams.replay import told_as_gone
from turnstone.services.turns.supervision import attend_if_due
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
        """Return where the turn's events behind that number are told, until it ends or waits for its client.

        Raises:
            NotFound: the turn, its session or its agent.
            ContentLost: the turn's content.
        """
        session, state, agent_owner, restore = self._turns.visit(ref)
        check_session(self._rules, caller, session, agent_owner, self._clock.now())
        attend_if_due(self._supervisor, self._clock, ref, session)
        state.check_content()
        excerpt = EventCursor(ref, after)
        excerpt.broadcast.restore = restore
        if not self._try_attach(excerpt) and excerpt.tell_state(state):
            self._following.look(ref, partial(self._goes_on, excerpt), excerpt.broadcast.close)
        return excerpt.broadcast

    def _try_attach(self, excerpt: EventCursor) -> bool:
        running = self._broadcasts.find(excerpt.broadcast.ref)
        if running is None or not running.is_run:
            return False
        excerpt.attach(running)
        return True

    def _goes_on(self, excerpt: EventCursor) -> bool:
        """Look at the store; tell whether there is something to look at again, and somebody who wants to know."""
        ref = excerpt.broadcast.ref
        if excerpt.broadcast.is_left or excerpt.broadcast.is_over or self._try_attach(excerpt):
            return False
        try:
            session, state = self._turns.load(ref)
        except NotFound as missing:
            excerpt.broadcast.close(told_as_gone(missing, ref.turn_id))
            return False
        except StoreUnavailable as unavailable:
            log.warning("turn %s is looked at again later: %s", ref.turn_id, unavailable)
            return True
        attend_if_due(self._supervisor, self._clock, ref, session)
        return excerpt.tell_state(state)
