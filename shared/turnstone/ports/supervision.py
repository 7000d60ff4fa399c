"""Continuation of turns and jobs outside requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.jobs import Job
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.sessions.sessions import SessionLock


class Supervisor(Protocol):
    """Supervises turns without a live request: paused ones, and those of dead processes."""

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        """Reconcile the turn soon after its lock expires, and from then on until it ends.

        The lock is the last one read. Watching an already watched turn only moves the time forward. Returns
        when that is durable. Raises StoreUnavailable.
        """

    def wake(self, token: str) -> None:
        """Wake the waiter that stored this token in a turn, because the turn continues. Raises StoreUnavailable."""


class Jobs(Protocol):
    """Runs clean-up jobs outside requests. The store holds the details of a job."""

    def send(self, job: Job) -> None:
        """Run the job soon after it is due; it may run more than once. Raises StoreUnavailable.

        A job due much later, or one that could not be sent, is left to the sweeper.
        """

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Send many jobs, as `send` does each, in as few requests as possible. Raises StoreUnavailable."""
