"""Clean-up jobs of one machine: a thread that does what is due, one after the other.

It keeps no list: what is to be done is in the store, also what a process before this one left.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, Thread

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.values.outcome import Outcome, Raised, Returned, guarded

log = logging.getLogger(__name__)
LOOKS_EVERY_S = 60.0


class LocalJobs:
    """Does jobs in this process. What tells those that are due, and what does one, come with `start`."""

    def __init__(self, every_s: float = LOOKS_EVERY_S) -> None:
        self._every_s = every_s
        self._changed = Condition()
        self._is_nudged = True
        self._is_closed = False
        self._thread: Thread | None = None

    def start(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        """Begin with what is due now, and look again whenever a job is sent, and from time to time."""
        self._thread = Thread(target=self._run_forever, args=(due, run), name="jobs", daemon=True)
        self._thread.start()

    def send(self, job: Job) -> None:
        """Look for what is due, of which the job is one or will be."""
        log.debug("a %s was sent", job.kind)
        with self._changed:
            self._is_nudged = True
            self._changed.notify()

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Look for what is due, of which these jobs are some or will be."""
        for job in jobs[-1:]:
            self.send(job)

    def close(self) -> None:
        """Do no more, after what is being done now."""
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
        """Wait until there may be something to do; False once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_nudged or self._is_closed, self._every_s)
            self._is_nudged = False
            return not self._is_closed


def _log_failure(outcome: Outcome[object]) -> None:
    if isinstance(outcome, Raised):
        unexpected = None if isinstance(outcome.error, StoreUnavailable) else outcome.error
        log.warning("a clean-up is left for later: %s", outcome.error, exc_info=unexpected)
