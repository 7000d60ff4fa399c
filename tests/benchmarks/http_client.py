"""A client of one kept connection that takes hardly any time itself: a blocking socket and the clock."""

import json
import socket
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
SILENCE_TIMEOUT_S = 60.0
READ_BYTES = 256 * 1024
END_OF_HEAD = b"\r\n\r\n"
LAST_CHUNK = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request's answer, and how long after the request its first event and its last byte came."""

    status: int
    body: bytes
    first_event_s: float
    whole_s: float

    def json(self) -> Any:
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        return json.loads(self.body)

    def events(self) -> list[dict[str, Any]]:
        """Return the payloads of a turn's events."""
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        events = [json.loads(line.removeprefix(b"data: ")) for line in self.body.split(b"\n\n") if line]
        return [event["event"]["payload"] for event in events]


class Connection:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), SILENCE_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def get(self, path: str) -> Exchange:
        return self.exchange(encoded("GET", path))

    def post(self, path: str, body: object) -> Exchange:
        return self.exchange(encoded("POST", path, body))

    def exchange(self, request: bytes) -> Exchange:
        """Send an encoded request and return its answer."""
        began = time.perf_counter()
        self.send(request)
        answer = bytearray()
        first_event_s: float | None = None
        while not is_whole(answer):
            part = self._socket.recv(READ_BYTES)
            assert part, f"the server hung up after {bytes(answer[:500])!r}"
            answer += part
            if first_event_s is None and b"data: " in answer:
                first_event_s = time.perf_counter() - began
        whole_s = time.perf_counter() - began
        status, body = read(bytes(answer))
        return Exchange(status, body, first_event_s or whole_s, whole_s)

    def receive(self, size: int) -> bytes:
        """Return the next bytes of an answer, once there are any."""
        part = self._socket.recv(size)
        assert part, "the server hung up"
        return part

    def send(self, request: bytes) -> None:
        """Send an encoded request without waiting for its answer."""
        self._socket.sendall(request)


def encoded(method: str, path: str, body: object = None) -> bytes:
    """Return the bytes of a request."""
    payload = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
    if payload:
        lines += ["Content-Type: application/json", f"Content-Length: {len(payload)}"]
    return "\r\n".join([*lines, "", ""]).encode() + payload


def is_whole(answer: bytearray) -> bool:
    """Return whether all of an answer has come."""
    end = answer.find(END_OF_HEAD)
    if end < 0:
        return False
    length = _length(answer[:end])
    if length is None:
        return answer.endswith(LAST_CHUNK)
    return len(answer) >= end + len(END_OF_HEAD) + length


def read(answer: bytes) -> tuple[int, bytes]:
    """Return the status and the body of a whole answer."""
    head, _, body = answer.partition(END_OF_HEAD)
    return int(head.split(b" ", 2)[1]), body if _length(head) is not None else _without_chunks(body)


def _length(head: bytes | bytearray) -> int | None:
    """Return the length the head announces, None if the body comes in chunks."""
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0]) if found else None


def _without_chunks(body: bytes) -> bytes:
    parts: list[bytes] = []
    start = 0
    while size := int(body[start : (end := body.index(b"\r\n", start))], 16):
        parts.append(body[end + 2 : end + 2 + size])
        start = end + 2 + size + 2
    return b"".join(parts)
