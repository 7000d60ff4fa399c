"""The jobs of one machine: polled when they are sent, and when each of them is due.

Covers: adapters/machine/local_jobs
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Event

from turnstone.adapters.machine.local_jobs import LocalJobs
from turnstone.domain.jobs import Job

WITHIN_S = 20.0


def due_in(seconds: float) -> Job:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return Job(kind="end_session", tenant="acme", order=str(seconds), since=at, due_at=at)


def test_a_job_that_is_due_soon_is_polled_in_time_though_an_earlier_one_was_sent_before() -> None:
    jobs = LocalJobs()
    later, has_run = due_in(0.5), Event()

    def due() -> list[Job]:
        return [later] if datetime.now(UTC) >= later.due_at else []

    jobs.send(due_in(0.2))
    jobs.send(later)
    jobs.start(due, lambda _: has_run.set())
    try:
        assert has_run.wait(WITHIN_S)
    finally:
        jobs.close()
