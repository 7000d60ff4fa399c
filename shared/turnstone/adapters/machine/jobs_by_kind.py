"""Jobs in several queues, by their kind, so that long ones do not delay others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnstone.domain.jobs import Job, JobKind
from turnstone.ports.supervision import Jobs


class JobsByKind:
    """Sends each job to the queue of its kind."""

    def __init__(self, others: Jobs, queues: Mapping[JobKind, Jobs]) -> None:
        """Take the queue of all kinds that have none of their own, and those of the kinds that have."""
        self._others = others
        self._queues = queues

    def send(self, job: Job) -> None:
        """Send the job. Raises StoreUnavailable."""
        self._queues.get(job.kind, self._others).send(job)

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Send the jobs, those of one queue together. Raises StoreUnavailable."""
        for queue in {id(each): each for each in (self._others, *self._queues.values())}.values():
            some = [job for job in jobs if self._queues.get(job.kind, self._others) is queue]
            if some:
                queue.send_all(some)
