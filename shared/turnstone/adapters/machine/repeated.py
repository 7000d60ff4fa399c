"""Periodic task in a thread of its own."""

import logging
from collections.abc import Callable
from threading import Event, Thread

from turnstone.domain.errors import TurnstoneError
from turnstone.domain.values.outcome import Raised, guarded

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
        while not self._is_closed.wait(self._every_s):
            outcome = guarded(self._act)
            if isinstance(outcome, Raised):
                unexpected = None if isinstance(outcome.error, TurnstoneError) else outcome.error
                log.warning("task failed, next run in %g s: %s", self._every_s, outcome.error, exc_info=unexpected)
