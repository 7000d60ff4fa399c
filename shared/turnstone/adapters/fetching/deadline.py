"""Deadline of a fetch, and its early end by a stop signal, in every blocking wait."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Thread, Timer
from typing import TYPE_CHECKING, Self

from turnstone.adapters.outgoing.connections import Line
from turnstone.domain.errors import FetchFailed
from turnstone.domain.values.cancellation import StopSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnstone.adapters.fetching.rules import Resolver


class Deadline:
    """Within the `with` block a fetch may block until its deadline or the stop signal.

    Ends every wait, also for a server that sends one byte at a time, which no socket timeout notices.
    """

    def __init__(self, timeout_s: float, stop: StopSignal | None) -> None:
        self._timeout_s = timeout_s
        self._ends_at = time.monotonic() + timeout_s
        self._stop = stop or StopSignal()
        self._line = Line()
        self._found: SimpleQueue[Sequence[str] | None] = SimpleQueue()
        self._held = ExitStack()

    def __enter__(self) -> Self:
        timer = Timer(max(self._timeout_s, 0), self._cut)
        timer.daemon = True
        timer.start()
        self._held.callback(timer.cancel)
        self._held.enter_context(self._stop.heeded_by(self._cut))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._held.close()

    @property
    def is_over(self) -> bool:
        return self._line.is_cut or time.monotonic() >= self._ends_at

    def left_s(self, shown: str) -> float:
        """Return the remaining time. Raises FetchFailed after the deadline."""
        left_s = self._ends_at - time.monotonic()
        if self._line.is_cut or left_s <= 0:
            raise self.ended(shown)
        return left_s

    def ended(self, shown: str) -> FetchFailed:
        """Return the error for the reason of the end."""
        if self._stop.is_set:
            return FetchFailed(shown, "the request was cancelled")
        return FetchFailed(shown, f"it did not answer in {self._timeout_s:g} s")

    def hold(self, sock: socket.socket) -> None:
        """Shut the socket at the end, also during the TLS handshake, which takes the socket over."""
        self._line.hold(self._held.enter_context(sock.dup()))

    def resolve_host(self, resolver: Resolver, host: str, port: int) -> Sequence[str]:
        """Return the resolver's addresses, none on failure or timeout: the resolver has no timeout of its own."""
        Thread(target=self._resolve, args=(resolver, host, port), daemon=True).start()
        return self._found.get() or ()

    def _resolve(self, resolver: Resolver, host: str, port: int) -> None:
        found: Sequence[str] = ()
        try:
            found = resolver(host, port)
        except (OSError, UnicodeError):
            return  # and found no address
        finally:
            self._found.put(found)

    def _cut(self) -> None:
        self._line.cut()
        self._found.put(None)
