"""Silences of a stream: the times for a comment, so that no proxy closes the connection."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

PING = b": ping\n\n"
PING_AFTER_S = 15.0


class Silence:
    """Wake a stream after a time in which it sent nothing, with one timer for all of its waits, possibly thousands."""

    def __init__(self, timeout_s: float = PING_AFTER_S) -> None:
        self._timeout_s = timeout_s
        self.is_long = False

    def begin(self, loop: AbstractEventLoop, wake: Callable[[], object]) -> None:
        """Start the timer, which calls `wake` in the loop."""
        self._loop = loop
        self._wake = wake
        self._since = loop.time()
        self._timer = loop.call_at(self._since + self._timeout_s, self._ring)

    def ends(self) -> None:
        """Restart the timer: something was sent."""
        self._since = self._loop.time()
        self.is_long = False

    def cancel(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        now = self._loop.time()
        if now >= self._since + self._timeout_s:
            self._since = now
            self.is_long = True
            self._wake()
        self._timer = self._loop.call_at(self._since + self._timeout_s, self._ring)
