"""HTTP connections that may take long to send a request, and that another thread can cut.

urllib3 sends a body under the timeout for connecting, which a large prompt over a slow line outlasts.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

SEND_TIMEOUT_S = 600.0


class Line:
    """What a thread asks over, so that another one can cut it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._cut = threading.Event()

    @property
    def is_cut(self) -> bool:
        return self._cut.is_set()

    def wait_for_cut(self, seconds: float) -> bool:
        """Wait that many seconds; return True at once when the line is cut, False when it is not."""
        return self._cut.wait(seconds)

    def hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self.is_cut:
                _shut(sock)

    def hurry(self, timeout_s: float) -> None:
        """Have the thread that asks, which calls this, wait no longer than so for each part of what is left."""
        with self._lock:
            if self._sock is not None:
                self._sock.settimeout(timeout_s)

    def cut(self) -> None:
        """End the wait for an answer, in the thread that waits by an error."""
        with self._lock:
            self._cut.set()
            if self._sock is not None:
                _shut(self._sock)


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # closed already
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS has one of its own, which is for one thread only


_of_thread = threading.local()


@contextmanager
def asking_over(line: Line) -> Iterator[None]:
    """Within the block, have the connections that this thread asks over held by the line."""
    _of_thread.line = line
    try:
        yield
    finally:
        _of_thread.line = None


class Patient:
    """Gives a connection's socket its time again whenever a request begins."""

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


class PatientHTTPConnection(Patient, HTTPConnection):
    pass


class PatientHTTPSConnection(Patient, HTTPSConnection):
    pass


class PatientHTTPPool(HTTPConnectionPool):
    ConnectionCls = PatientHTTPConnection


class PatientHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = PatientHTTPSConnection


def patient_pools(size: int) -> PoolManager:
    """Return pools of kept connections that wait for a slow line while they send."""
    pools = PoolManager(maxsize=size, block=False)
    pools.pool_classes_by_scheme = {"http": PatientHTTPPool, "https": PatientHTTPSPool}
    return pools
