"""The connections of one process: their time limits, and which one is closed for a new one."""

from __future__ import annotations

import asyncio
import logging
from itertools import takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from .descriptors import RareWarning

if TYPE_CHECKING:
    from .http_limits import HttpLimits

LINGER_S = 2.0
LONGEST_TICK_S = 1.0
TICKS_PER_LIMIT = 4
LIMIT = "%d may be open (TURNSTONE_MAX_CONNECTIONS, ulimit -n)"
log = logging.getLogger(__name__)


class Connection(Protocol):
    """A supervised connection.

    Attributes:
        phase: the phase of `Connections` that contains it.
    """

    phase: Phase

    def is_sending(self) -> bool:
        """Return whether a part of its response is not sent yet."""

    def check_pace(self) -> bool:
        """Return whether enough bytes of a body arrived since the last call."""

    def time_out(self) -> None:
        """End it: the time limit of its phase has passed."""

    def make_room(self) -> None:
        """End it at once, for a new connection."""


Phase = dict[Connection, float]  # in order of entry, with the time of entry by the clock of `Connections`


class Connections:
    """Supervises connections; each is in one phase at a time.

    Every phase but `answered` has a time limit. Beyond the most connections, a new one closes one in `leaving`, else
    the longest idle one (`heads`, `kept`: bytes of an unfinished head do not renew it), else the one with the longest
    unfinished body. A connection is not closed for another one after its whole request was received, nor before its
    whole response was sent.

    The clock moves only while the event loop runs, so a suspended process closes no connection too early.

    Attributes:
        heads: new connections, and those with an unfinished head.
        kept: connections between two requests.
        bodies: connections with an unfinished body.
        answered: connections with a whole request and no whole response yet.
        leaving: connections after their last response; further input is discarded.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self.heads: Phase = {}
        self.kept: Phase = {}
        self.bodies: Phase = {}
        self.answered: Phase = {}
        self.leaving: Phase = {}
        self._phases = (self.heads, self.kept, self.bodies, self.answered, self.leaving)
        self._tick_s = min(LONGEST_TICK_S, min(limits.head_s, limits.body_s, limits.keep_alive_s) / TICKS_PER_LIMIT)
        self._now_s = 0.0
        self._ticked_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed_warning = RareWarning(log, f"%d idle connections were closed for new ones: {LIMIT}")
        self._refused_warning = RareWarning(log, f"%d connections were refused, all others have requests: {LIMIT}")

    def admit(self, connection: Connection) -> bool:
        """Add a new connection, if necessary instead of another one; return whether there is room for it."""
        if sum(map(len, self._phases)) >= self.limits.connections:
            if not self.make_room():
                self._refused_warning.count(self.limits.connections)
                return False
            self._closed_warning.count(self.limits.connections)
        connection.phase = self.heads
        self.heads[connection] = self._now_s
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._ticked_at_s = loop.time()
            self._timer = loop.call_later(self._tick_s, self._tick)
        return True

    def move(self, connection: Connection, phase: Phase) -> None:
        """Move the connection into the phase; no effect if it is there already."""
        before = connection.phase
        if before is not phase:
            del before[connection]
            connection.phase = phase
            phase[connection] = self._now_s

    def leave(self, connection: Connection) -> None:
        """Remove a connection that was lost, or is about to be."""
        connection.phase.pop(connection, None)

    def make_room(self) -> bool:
        """Close the least useful connection; return whether there was one."""
        longest = self._longest_of(self.leaving) or self._longest_of(self.heads, self.kept)
        longest = longest or self._longest_of(self.bodies)
        if longest is not None:
            self.leave(longest)
            longest.make_room()
        return longest is not None

    def _longest_of(self, *phases: Phase) -> Connection | None:
        idle = (next((entry for entry in phase.items() if not entry[0].is_sending()), None) for phase in phases)
        return min((entry for entry in idle if entry is not None), key=itemgetter(1), default=(None, 0.0))[0]

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._now_s += min(now_s - self._ticked_at_s, 2 * self._tick_s)
        self._ticked_at_s = now_s
        self._timer = loop.call_later(self._tick_s, self._tick) if any(self._phases) else None
        self._end_overdue(self.heads, self.limits.head_s)
        self._end_overdue(self.kept, self.limits.keep_alive_s)
        self._end_overdue(self.leaving, LINGER_S)
        self._end_overdue(self.bodies, self.limits.body_s)

    def _end_overdue(self, phase: Phase, limit_s: float) -> None:
        due_s = self._now_s - limit_s
        for connection in list(takewhile(lambda connection: phase[connection] <= due_s, phase)):
            if connection.is_sending() or (phase is self.bodies and connection.check_pace()):
                self._renew(connection)
            else:
                connection.time_out()

    def _renew(self, connection: Connection) -> None:
        """Restart the time limit of the connection's phase."""
        del connection.phase[connection]
        connection.phase[connection] = self._now_s
