"""Periodic task in a thread of its own."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

from turnstone.domain.errors import TurnstoneError

log = logging.getLogger(__name__)


class Repeated:
    """Runs a function after each pause; logs a failure, and retries after the next pause."""

    def __init__(self, act: Callable[[], object], every_s: float) -> None:
        self._act = act
        self._every_s = every_s
        self._is_closed = Event()
        self._thread = Thread(target=self._repeat, name="repeated", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Start no further run, and wait for the current one."""
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _repeat(self) -> None:
        # a pool, because its futures catch unexpected errors: the next run may succeed
        with ThreadPoolExecutor(1, thread_name_prefix="repeated") as pool:
            while not self._is_closed.wait(self._every_s):
                if problem := pool.submit(self._act).exception():
                    expected = isinstance(problem, TurnstoneError)
                    log.warning("task failed, next run in %g s: %s", self._every_s, problem, exc_info=not expected)
