"""Jobs that wait until a test has them done."""

from __future__ import annotations

from collections.abc import Sequence

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job


class RecordedJobs:
    """Keeps sent jobs; on request it loses them, or can't be reached."""

    def __init__(self) -> None:
        self.sent: list[Job] = []
        self.is_down = False

    def send(self, job: Job) -> None:
        if self.is_down:
            raise StoreUnavailable("the queue can't be reached")
        self.sent.append(job)

    def send_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.send(job)

    def taken(self) -> tuple[Job, ...]:
        """Return the jobs sent since the last call."""
        taken, self.sent = tuple(self.sent), []
        return taken
