"""Jobs of one machine: a thread that runs due jobs in order.

It keeps no list: the store holds all jobs, also those of an earlier process.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, Thread

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.values.outcome import Outcome, Raised, Returned, guarded

log = logging.getLogger(__name__)
POLL_EVERY_S = 60.0


class LocalJobs:
    """Runs jobs in this process. `start` supplies the functions that list and run due jobs."""

    def __init__(self, name: str = "jobs", every_s: float = POLL_EVERY_S) -> None:
        """Take the name of the thread, and the interval of polls."""
        self._name = name
        self._every_s = every_s
        self._changed = Condition()
        self._is_nudged = True
        self._is_closed = False
        self._thread: Thread | None = None

    def start(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        """Start with the jobs due now; poll again after each sent job and at intervals."""
        self._thread = Thread(target=self._run_forever, args=(due, run), name=self._name, daemon=True)
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

    def _run_forever(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        while self._wait():
            found = guarded(due)
            _log_failure(found)
            for job in found.value if isinstance(found, Returned) else ():
                if self._is_closed:
                    return
                _log_failure(guarded(partial(run, job)))

    def _wait(self) -> bool:
        """Wait until the next poll; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_nudged or self._is_closed, self._every_s)
            self._is_nudged = False
            return not self._is_closed


def _log_failure(outcome: Outcome[object]) -> None:
    if isinstance(outcome, Raised):
        unexpected = None if isinstance(outcome.error, StoreUnavailable) else outcome.error
        log.warning("a job is left for later: %s", outcome.error, exc_info=unexpected)
