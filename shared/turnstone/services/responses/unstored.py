"""The dependencies of runs of responses that are not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.turns.leases import LeaseKeeper

if TYPE_CHECKING:
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.sessions.sessions import SessionLock
    from turnstone.services.turns.run_request import RunnerDeps
    from turnstone.store.responses.unstored import UnstoredTurns


class NoSupervisor:
    """Supervises nothing: the turn ends with its process."""

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        """Do nothing."""

    def wake(self, token: str) -> None:
        """Do nothing."""


def unstored_deps(deps: RunnerDeps, turns: UnstoredTurns) -> RunnerDeps:
    """Return the dependencies of runs that keep nothing, from those of stored turns.

    Their leases only limit the time of a run, no other request joins them, and they end as their client leaves.
    """
    leases = LeaseKeeper(turns, deps.clock, deps.leases.duration)

    def abandon(ref: TurnRef) -> None:
        if (lease := leases.find(ref)) is not None:
            lease.abandon()

    return deps._replace(
        turns=turns,
        tools=deps.tools.without_files(),
        supervisor=NoSupervisor(),
        leases=leases,
        broadcasts=Broadcasts(abandon),
        summarizes_all=False,
        tidies_up=False,
        runs_unattended=False,
    )
