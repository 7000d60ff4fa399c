"""Raw answers over sockets: valid and invalid heads, bodies and connections, most of them below the routes."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from tests.golden.normal import Normaliser
from tests.golden.play import Scenario
from tests.golden.writing import body_lines
from tests.support.server.servers import HOST, ServerProcess

DATE = re.compile(r"(?m)^date: [^\r\n]+")
PATIENCE_S = 20.0
SHORT_S = 0.5
MAX_HEAD_BYTES = 2_000
MAX_FIELDS = 12
AGENT = b'{"agent_config":{"model":"offline","instructions":"Be brief."}}'
UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
INNER = b"DELETE /v1/agents/x HTTP/1.1\r\nhost: localhost\r\n\r\n"


def request(line: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    """Return a request with `connection: close`."""
    sized = (b"content-length: %d" % len(body),) if body else ()
    return b"\r\n".join((line + b" HTTP/1.1", b"host: localhost", b"connection: close", *sized, *fields, b"", body))


POST = b"POST /v1/agents"
REQUESTS: dict[str, bytes] = {
    "health": request(b"GET /v1/health"),
    "only its head": request(b"HEAD /v1/health"),
    "an older protocol": b"GET /v1/health HTTP/1.0\r\n\r\n",
    "two of one connection": b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n" + request(b"GET /v1/nothing"),
    "a whole body": request(POST, b"content-type: application/json", body=AGENT),
    "a body in parts": request(POST, b"transfer-encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(AGENT), AGENT),
    "a body that is waited with": request(POST, b"expect: 100-continue", body=AGENT),
    "a path of other characters": request(b"GET /v1/agents/%C3%A9%2Fx"),
    "another host": b"GET /v1/agents HTTP/1.1\r\nhost: elsewhere.example\r\nconnection: close\r\n\r\n",
    "another origin": request(b"GET /v1/agents", b"origin: https://elsewhere.example"),
    "nonsense": b"hello\r\n\r\n",
    "two lengths": request(POST, b"content-length: 1", body=AGENT),
    "a length that is none": request(POST, b"content-length: x"),
    "a length and parts": request(POST, b"transfer-encoding: chunked", body=AGENT),
    "a part that is none": request(POST, b"transfer-encoding: chunked") + b"x\r\n",
    "a tunnel": request(b"CONNECT localhost:80"),
    "a head that is too long": request(b"GET /v1/health", b"x: " + b"x" * MAX_HEAD_BYTES),
    "a line that is too long": request(b"GET /" + b"x" * MAX_HEAD_BYTES),
    "too many fields": request(b"GET /v1/health", *(b"x%d: y" % number for number in range(MAX_FIELDS))),
    "a head that never ends": b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n",
    "a body that never comes": b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n",
    "an upgrade": b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\n"
    + UPGRADE
    + b"content-length: %d\r\n\r\n%b" % (len(AGENT), AGENT)
    + request(b"GET /v1/health"),
    "a body that looks like a request": b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\n"
    + UPGRADE
    + b"content-length: %d\r\n\r\n%b" % (len(INNER), INNER)
    + request(b"GET /v1/health"),
}


@dataclass
class Answers:
    """The answers by request."""

    answered: dict[str, bytes]

    def texts(self, constant: Collection[str]) -> tuple[str, str, set[str]]:
        normalise = Normaliser({}, constant)
        return "\n".join(self._wire_lines(normalise)) + "\n", "", normalise.tokens

    def _wire_lines(self, normalise: Normaliser) -> Iterator[str]:
        for name, answer in self.answered.items():
            yield f">>> {name}"
            text = normalise(DATE.sub("date: <date>", answer.decode("latin-1")))
            for line in text.replace("\r", "").split("\n"):
                yield from body_lines(line.encode()) if line.startswith("{") else (line,)


def played(_: object, folder: Path, __: int) -> Answers:
    """Send each request over a new connection."""
    limits = {"max_head_bytes": MAX_HEAD_BYTES, "max_head_fields": MAX_FIELDS, "head_seconds": SHORT_S}
    with redirect_stdout(StringIO()), ServerProcess(folder, body_seconds=SHORT_S, **limits) as server:
        return Answers({name: exchanged(server.port, sent) for name, sent in REQUESTS.items()})


def exchanged(port: int, sent: bytes) -> bytes:
    """Return all bytes until the server closes the connection."""
    with socket.create_connection((HOST, port), PATIENCE_S) as connection:
        connection.sendall(sent)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer


def scenarios() -> Iterator[Scenario]:
    tests = ("tests/e2e/server/test_connection_limits.py", "tests/e2e/server/test_upgrades.py", "tests/attack")
    yield Scenario("connections/raw", print, tests, only=("sqlite",), play=played)
