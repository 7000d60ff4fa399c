"""Raw connections of an attacker, and an honest client beside them."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.server.servers import HOST

TIMEOUT_S = 20.0
SILENCE_S = 1.0
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)")
HEALTH = b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n"
MEGABYTE = 1_000_000


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), TIMEOUT_S)


def flooded(port: int, first: bytes, again: bytes, size_bytes: int) -> tuple[list[int], int]:
    """Send the first bytes, and the others again and again until something is answered or so many bytes are sent.

    Returns the statuses of the answers, and how many bytes were sent.
    """
    piece = again * max(1, 65_536 // len(again))
    sent = 0
    with connected(port) as connection:
        with suppress(OSError):  # its end may be reset, with answers that can still be read
            connection.sendall(first)
            answers = select.poll()
            answers.register(connection, select.POLLIN)
            while sent < size_bytes and not answers.poll(0):
                connection.sendall(piece)
                sent += len(piece)
        connection.settimeout(TIMEOUT_S if sent < size_bytes else SILENCE_S)
        return [int(status) for status in STATUS.findall(received(connection))], sent


def received(connection: socket.socket) -> bytes:
    """Return all that comes until the other side ends, or is silent for too long."""
    answer = b""
    with suppress(OSError):
        while part := connection.recv(65_536):
            answer += part
    return answer


def status_of(port: int, request: bytes = HEALTH) -> int | None:
    """Return the answer to a request over a connection of its own; None without one."""
    try:
        with connected(port) as connection:
            connection.sendall(request)
            found = STATUS.search(connection.recv(65_536))
    except OSError:
        return None
    return int(found[1]) if found else None


def resident_mb(pid: int) -> float:
    """Return the memory that the process has now."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1_000


class Honest:
    """The results of a client that sent one small request after the other.

    Attributes:
        took_s: the time of each request.
        failed: how many were not answered with 200.
        most_mb: the most memory the server had.
    """

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self.failed = 0
        self.most_mb = 0.0

    @property
    def p99_s(self) -> float:
        return sorted(self.took_s)[int(len(self.took_s) * 0.99)]


@contextmanager
def honest_client(port: int, pid: int) -> Iterator[Honest]:
    """Send requests of an honest client, over a new connection each time, while the block lasts."""
    seen = Honest()
    is_over = threading.Event()

    def send_requests() -> None:
        while not is_over.is_set() or not seen.took_s:
            began = time.monotonic()
            seen.failed += status_of(port) != 200
            seen.took_s.append(time.monotonic() - began)
            seen.most_mb = max(seen.most_mb, resident_mb(pid))
            is_over.wait(0.005)

    client = threading.Thread(target=send_requests)
    client.start()
    try:
        yield seen
    finally:
        is_over.set()
        client.join()
