"""A listener on loopback with scripted answers, byte by byte, which counts its connections."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 100_000
TLS_HELLO = b"\x16\x03"
Answer = bytes | Callable[[socket.socket], None]


def http_answer(body: bytes = b"hello", *headers: str, status: str = "200 OK") -> bytes:
    """Return a whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return http_answer(b"", f"Location: {location}", status=f"{status} Elsewhere")


class WebTarget:
    """Within the `with` block it listens; an answer is found by the path, and `/` stands for all others.

    Attributes:
        connections: how many came.
        requests: each head and body as it was sent.
    """

    def __init__(self, answers: Mapping[str, Answer] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, Answer] = {"/": http_answer(), **(answers or {})}
        self.connections = 0
        self.requests: list[tuple[str, bytes]] = []
        self._tls = tls
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), "a target still answers"

    def heads(self) -> list[str]:
        """Return the request lines that came."""
        return [head.split("\r\n", 1)[0] for head, _ in self.requests]

    def _start(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        self._open.add(sock)
        with suppress(OSError), sock:  # a client may leave at any time
            if self._tls is not None:
                self._open.discard(sock)
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._open.add(sock)
            with sock:
                self._answer(sock)
        self._open.discard(sock)

    def _answer(self, sock: socket.socket) -> None:
        sent = b""
        while b"\r\n\r\n" not in sent and len(sent) < MAX_HEAD_BYTES:
            if not (part := sock.recv(65_536)) or part.startswith(TLS_HELLO):
                return
            sent += part
        head, _, body = sent.partition(b"\r\n\r\n")
        request = head.decode("latin-1")
        length = next(
            (int(line[15:]) for line in request.lower().split("\r\n") if line.startswith("content-length:")), 0
        )
        while len(body) < length and (part := sock.recv(65_536)):
            body += part
        self.requests.append((request, body))
        path = request.split(" ")[1].partition("?")[0]
        answer = self.answers.get(path, self.answers["/"])
        if callable(answer):
            answer(sock)
        else:
            sock.sendall(answer)
