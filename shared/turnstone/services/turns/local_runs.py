"""Stopping what this process runs of agents and sessions that were deleted."""

from collections.abc import Callable

from turnstone.domain.errors import NotFound
from turnstone.domain.refs import TurnRef
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import told_as_gone
from turnstone.services.turns.leases import LeaseKeeper


class LocalRuns:
    """The turns that run in this process, or that somebody here listens to."""

    def __init__(self, leases: LeaseKeeper, broadcasts: Broadcasts) -> None:
        self._leases = leases
        self._broadcasts = broadcasts

    def stop(self, is_gone: Callable[[TurnRef], bool]) -> None:
        """Have the runs of turns that are gone end at their next event; tell those who listen at once."""
        for lease in self._leases.held():
            if is_gone(lease.ref):
                with lease.in_hand:
                    lease.lose()
        for broadcast in self._broadcasts.all():
            if is_gone(broadcast.ref):
                missing = NotFound("session", broadcast.ref.session_id)
                self._broadcasts.end(broadcast, told_as_gone(missing, broadcast.ref.turn_id))
