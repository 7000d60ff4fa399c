"""A web server on loopback with scripted answers, which keeps its requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"


@dataclass(frozen=True)
class WebRequest:
    """A request, as it was sent; names of headers in lower case, each parameter with all its values."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def params(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True, strict_parsing="?" in self.target)

    @property
    def json_body(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class WebAnswer:
    status: int = 200
    body: bytes = b""
    media_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def json_answer(json_body: Any, status: int = 200) -> WebAnswer:
    return WebAnswer(status, json.dumps(json_body).encode())


Answers = Callable[[WebRequest], WebAnswer]


class WebServer:
    """The server, while its `with` block lasts.

    Attributes:
        requests: the requests, in order.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.requests: list[WebRequest] = []
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="web-server")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                request = WebRequest(self.command, self.path, headers, body)
                server.requests.append(request)
                with suppress(ConnectionError):  # the client may have gone
                    self._send(server._answers(request))

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def _send(self, answer: WebAnswer) -> None:
                self.send_response(answer.status)
                if answer.media_type is not None:
                    self.send_header("Content-Type", answer.media_type)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *args: Any) -> None:
                """Print nothing on the terminal."""

        return Handler
