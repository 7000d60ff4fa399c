"""Stop the runs of this process whose agent or session was deleted."""

from collections.abc import Callable

from turnstone.domain.errors import NotFound
from turnstone.domain.refs import TurnRef
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import gone_event
from turnstone.services.turns.leases import LeaseKeeper


class LocalRuns:
    """The turns with a run or subscribers in this process."""

    def __init__(self, leases: LeaseKeeper, broadcasts: Broadcasts) -> None:
        self._leases = leases
        self._broadcasts = broadcasts

    def stop(self, is_gone: Callable[[TurnRef], bool]) -> None:
        """End the runs of deleted turns at their next event; notify their subscribers at once."""
        for lease in self._leases.held():
            if is_gone(lease.ref):
                with lease.in_hand:
                    lease.lose()
        for broadcast in self._broadcasts.all():
            if is_gone(broadcast.ref):
                missing = NotFound("session", broadcast.ref.session_id)
                self._broadcasts.end(broadcast, gone_event(missing, broadcast.ref.turn_id))
