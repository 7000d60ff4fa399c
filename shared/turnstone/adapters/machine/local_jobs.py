"""Clean-up jobs of one machine: one thread that runs due jobs in order.

It keeps no list: the store holds all jobs, also those of an earlier process.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Thread
from typing import Any

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job

log = logging.getLogger(__name__)
POLL_EVERY_S = 60.0


class LocalJobs:
    """Runs jobs in this process. `start` supplies the functions that list and run due jobs."""

    def __init__(self, every_s: float = POLL_EVERY_S) -> None:
        self._every_s = every_s
        self._changed = Condition()
        self._is_nudged = True
        self._is_closed = False
        self._thread: Thread | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="job")

    def start(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        """Start with the jobs due now; poll again after each sent job and at intervals."""
        self._thread = Thread(target=self._run_forever, args=(due, run), name="jobs", daemon=True)
        self._thread.start()

    def send(self, job: Job) -> None:
        """Poll the due jobs, now including this one."""
        log.debug("a %s was sent", job.kind)
        with self._changed:
            self._is_nudged = True
            self._changed.notify()

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Poll the due jobs, now including these."""
        for job in jobs[-1:]:
            self.send(job)

    def close(self) -> None:
        """Stop after the current job."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown()

    def _run_forever(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        while self._wait():
            # a pool, because its futures catch unexpected errors: this thread must continue with the other jobs
            found = self._pool.submit(due)
            if self._is_done(found):
                for job in found.result():
                    if self._is_closed:
                        return
                    self._is_done(self._pool.submit(run, job))

    def _is_done(self, future: Future[Any]) -> bool:
        """Wait for the job; return whether it succeeded."""
        if (problem := future.exception()) is not None:
            expected = isinstance(problem, StoreUnavailable)
            log.warning("clean-up job failed, retried at the next poll: %s", problem, exc_info=not expected)
        return problem is None

    def _wait(self) -> bool:
        """Wait until the next poll; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_nudged or self._is_closed, self._every_s)
            self._is_nudged = False
            return not self._is_closed
