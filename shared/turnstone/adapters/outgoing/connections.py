"""HTTP connections with a long send timeout, which another thread can cut.

urllib3 applies the connect timeout to sending the body, too short for a large prompt over a slow line.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

SEND_TIMEOUT_S = 600.0


class Line:
    """The connections of one thread's request, which another thread can cut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._cut = threading.Event()

    @property
    def is_cut(self) -> bool:
        return self._cut.is_set()

    def wait_for_cut(self, seconds: float) -> bool:
        """Wait up to the timeout; return True once the connections are cut."""
        return self._cut.wait(seconds)

    def hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self.is_cut:
                _shut(sock)

    def hurry(self, timeout_s: float) -> None:
        """Limit the calling thread's wait for each remaining part of the response."""
        with self._lock:
            if self._sock is not None:
                self._sock.settimeout(timeout_s)

    def release(self) -> bool:
        """Keep the connection from later cuts; return False if the line is cut already."""
        with self._lock:
            if not self.is_cut:
                self._sock = None
            return not self.is_cut

    def cut(self) -> None:
        """Cut the connections: a waiting thread fails with an error."""
        with self._lock:
            self._cut.set()
            if self._sock is not None:
                _shut(self._sock)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # a TLS socket's own shutdown is not safe across threads


_of_thread = threading.local()


@contextmanager
def cuttable_by(line: Line) -> Iterator[None]:
    """Within the block, register this thread's connections with the line."""
    _of_thread.line = line
    try:
        yield
    finally:
        _of_thread.line = None


class Patient:
    """Restores a connection's socket timeout at the start of each request."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc] # mixed into urllib3's connections
        self._begin()

    def putrequest(self, *args: Any, **more: Any) -> None:
        if self.sock is not None:
            self._begin()
        super().putrequest(*args, **more)  # type: ignore[misc] # as above

    def _begin(self) -> None:
        self.sock.settimeout(SEND_TIMEOUT_S)
        line: Line | None = getattr(_of_thread, "line", None)
        if line is not None:
            line.hold(self.sock)
