"""Jobs of one machine: a thread that runs due jobs in order, or has several threads run them.

It keeps no list: the store holds all jobs, also those of an earlier process.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from threading import Condition, Thread

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.values.outcome import Outcome, Raised, Returned, guarded

log = logging.getLogger(__name__)
POLL_EVERY_S = 60.0
LATER_S = 0.01  # than due, because two clocks may differ
BATCH_S = 20.0  # of parallel jobs, after which those that have become due since are seen


class LocalJobs:
    """Runs jobs in this process. `start` supplies the functions that list and run due jobs."""

    def __init__(self, name: str = "jobs", every_s: float = POLL_EVERY_S, at_once: int = 1) -> None:
        """Take the name of the thread, the interval of polls, and how many jobs run at once."""
        self._name = name
        self._every_s = every_s
        self._at_once = at_once
        self._changed = Condition()
        self._poll_s = time.monotonic() + every_s
        self._due_s: list[float] = []  # a heap: when sent jobs are due before that poll
        self._is_nudged = True
        self._is_closed = False
        self._thread: Thread | None = None

    def start(self, due: Callable[[], Sequence[Job]], run: Callable[[Job], None]) -> None:
        """Start with the jobs due now; poll again after each sent job and at intervals."""
        self._thread = Thread(target=self._run_forever, args=(due, run), name=self._name, daemon=True)
        self._thread.start()

    def send(self, job: Job) -> None:
        """Poll the due jobs, now including this one, and when it is due if that is soon."""
        self.send_all((job,))

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Poll the due jobs, now including these, and when they are due if that is soon."""
        now, now_s = datetime.now(UTC), time.monotonic()
        with self._changed:
            for job in jobs:
                due_s = now_s + (job.due_at - now).total_seconds() + LATER_S
                if now_s < due_s < self._poll_s:
                    heappush(self._due_s, due_s)
            self._is_nudged = True
            self._changed.notify()

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
            jobs = found.value if isinstance(found, Returned) else ()
            if self._at_once > 1 and len(jobs) > 1:
                self._run_in_parallel(jobs, run)
                continue
            for job in jobs:
                if self._is_closed:
                    return
                _log_failure(guarded(partial(run, job)))

    def _run_in_parallel(self, jobs: Sequence[Job], run: Callable[[Job], None]) -> None:
        """Run the jobs, but begin none after a while: then the due ones are listed again."""
        until_s = time.monotonic() + BATCH_S

        def run_in_time(job: Job) -> None:
            if not self._is_closed and time.monotonic() < until_s:
                _log_failure(guarded(partial(run, job)))

        with ThreadPoolExecutor(min(self._at_once, len(jobs)), thread_name_prefix=self._name) as pool:
            list(pool.map(run_in_time, jobs))
        if time.monotonic() >= until_s:
            with self._changed:
                self._is_nudged = True

    def _wait(self) -> bool:
        """Wait until the next poll; False once closed."""
        with self._changed:
            while not (self._is_nudged or self._is_closed) and (left_s := self._next_s() - time.monotonic()) > 0:
                self._changed.wait(left_s)
            now_s = time.monotonic()
            while self._due_s and self._due_s[0] <= now_s:
                heappop(self._due_s)
            if self._poll_s <= now_s:
                self._poll_s = now_s + self._every_s
            self._is_nudged = False
            return not self._is_closed

    def _next_s(self) -> float:
        return min(self._poll_s, self._due_s[0]) if self._due_s else self._poll_s


def _log_failure(outcome: Outcome[object]) -> None:
    if isinstance(outcome, Raised):
        unexpected = None if isinstance(outcome.error, StoreUnavailable) else outcome.error
        log.warning("a job is left for later: %s", outcome.error, exc_info=unexpected)
