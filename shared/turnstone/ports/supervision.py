"""What continues turns and jobs outside of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.jobs import Job
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.sessions.sessions import SessionLock


class Supervisor(Protocol):
    """Looks after turns that nobody's request looks after: paused ones, and those whose process died."""

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        """See to it that the turn is attended to soon after its lock's time is over, and from then on until it ends.

        The lock is the last known one. Watching a turn that is watched already only brings the time forward. Returns
        when that is durable. Raises StoreUnavailable.
        """

    def wake(self, token: str) -> None:
        """Tell whoever waits with a turn, and left this token in it, that it moves on. Raises StoreUnavailable."""


class Jobs(Protocol):
    """Has clean-up jobs done, outside of requests. What a job is about stands in the store."""

    def send(self, job: Job) -> None:
        """Have the job run soon after it is due; it may run more than once. Raises StoreUnavailable.

        One that is due much later may be left to whoever sends what is due. So may one whose sending fails.
        """

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Send many jobs, as `send` does each, in as few requests as possible. Raises StoreUnavailable."""
