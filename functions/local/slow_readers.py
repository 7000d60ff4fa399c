"""Ending of connections whose client reads nothing of a pending response."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import sys
import termios
from collections.abc import Callable, Collection
from contextlib import suppress
from ctypes import CDLL
from typing import Any

CHECKS_WITHIN_LIMIT = 4
LONGEST_BETWEEN_CHECKS_S = 2.0
MANY_CONNECTIONS = 16
log = logging.getLogger(__name__)


class _Waiting:
    """A response that its client has not read yet.

    Attributes:
        size_bytes: unread bytes at the last check.
        since_s: time of the loop at the last sign of reading.
    """

    __slots__ = ("since_s", "size_bytes")

    def __init__(self, size_bytes: int, since_s: float) -> None:
        self.size_bytes = size_bytes
        self.since_s = since_s


class SlowReaders:
    """Ends connections to which nothing could be written for `limit_s`, at the next check after that.

    One timer checks the buffers of all connections: a timer for each would be set and cancelled with every response.
    It also covers data that are pending after the response's end, and after the server began to close the connection.
    """

    def __init__(self, connections: Collection[Any], limit_s: float) -> None:
        """Watch the protocols in the collection, which changes as clients come and go."""
        self._connections = connections
        self._limit_s = limit_s
        self._every_s = min(limit_s / CHECKS_WITHIN_LIMIT, LONGEST_BETWEEN_CHECKS_S)
        self._waiting: dict[Any, _Waiting] = {}
        self._trim = _memory_trimmer()
        self._most_connections = 0
        self._trims = 0

    def begin(self) -> None:
        """Check from now on, until the loop ends."""
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(self._every_s, self._check)

    def _check(self) -> None:
        now_s = self._loop.time()
        before, self._waiting = self._waiting, {}
        for connection in tuple(self._connections):
            transport = connection.transport
            if not transport.get_write_buffer_size():
                continue
            size_bytes = _unread_bytes(transport)
            waiting = before.get(connection)
            if waiting is None or waiting.size_bytes != size_bytes:
                waiting = _Waiting(size_bytes, now_s)
            if now_s - waiting.since_s >= self._limit_s:
                log.info("a connection ended: its client read none of %d bytes for %g s", size_bytes, self._limit_s)
                transport.abort()
            else:
                self._waiting[connection] = waiting
        self._return_memory()
        self._loop.call_later(self._every_s, self._check)

    def _return_memory(self) -> None:
        """Return memory to the system after many connections ended: the allocator keeps gaps between buffers."""
        number = len(self._connections)
        self._most_connections = max(self._most_connections, number)
        if self._most_connections - number >= MANY_CONNECTIONS:
            self._most_connections = number
            self._trims = 2  # at the first one, some of their responses may not have ended
        if self._trims:
            self._trims -= 1
            self._loop.run_in_executor(None, self._trim, 0)


def _unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Return the bytes that the client has not read, with those in the system's buffer.

    The system takes more from the server only once a third of its buffer is free, which may be a megabyte: until then,
    that buffer alone shows that a slow client reads.
    """
    in_system = bytearray(4)
    with suppress(OSError, ValueError):  # closed, or not supported by the system
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, in_system)
    return transport.get_write_buffer_size() + int.from_bytes(in_system, sys.byteorder)


def _memory_trimmer() -> Callable[[int], object]:
    """Return glibc's `malloc_trim`, or a function without effect for another C library."""
    if sys.platform == "linux":
        with suppress(AttributeError):
            return CDLL(None).malloc_trim
    return lambda _: None
