"""Decompressed bodies that were read lately."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from threading import Lock

MOST_BYTES = 2 * 1024 * 1024
LARGEST_BYTES = 64 * 1024  # of a decompressed body that is kept: a large one would displace many


class RecentBodies:
    """Decompressed bodies by their compressed bytes, the last used ones up to a number of bytes.

    Each turn reads the segments that the turn before it read. To decompress one takes 40 µs, and lets another thread
    run, for which the turn then waits (measured: 33 segments, an eighth of the time of a response).
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._bodies: OrderedDict[bytes, bytes] = OrderedDict()
        self._changing = Lock()

    def inflated(self, compressed: bytes) -> bytes:
        """Return the decompressed body. Raises zlib.error."""
        with self._changing:
            body = self._bodies.get(compressed)
            if body is not None:
                self._bodies.move_to_end(compressed)
                return body
        body = zlib.decompress(compressed)
        if len(body) <= LARGEST_BYTES:
            self._keep(compressed, body)
        return body

    def _keep(self, compressed: bytes, body: bytes) -> None:
        with self._changing:
            if compressed in self._bodies:
                return
            self._bodies[compressed] = body
            self._bytes += len(compressed) + len(body)
            while self._bytes > self._most_bytes:
                old, its_body = self._bodies.popitem(last=False)
                self._bytes -= len(old) + len(its_body)
