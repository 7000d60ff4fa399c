"""A server that speaks an arbitrary part of MCP over HTTP, by hand, in a thread over loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HOST = "127.0.0.1"
Message = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An answer of HTTP.

    Attributes:
        chunks: the body, as it is sent; a number is a wait of so many seconds.
        hang_up: whether the connection ends before the body does.
    """

    chunks: list[bytes | float] = field(default_factory=list)
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    hang_up: bool = False


class HostileMcpServer:
    """The server, while its block lasts.

    Attributes:
        requests: the called methods of JSON-RPC, in order.
        headers: the headers of the requests, names in lower case.
    """

    def __init__(self, reply: Callable[[Message], Reply]) -> None:
        """Prepare a server that answers each posted message by `reply`, and a GET with 405."""
        self.reply = reply
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._leave = threading.Event()
        self._http = _Server((HOST, 0), _Handler)
        self._http.hostile = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def url(self, path: str = "/mcp") -> str:
        return f"http://{HOST}:{self.port}{path}"

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the block ends."""
        self._leave.wait(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._leave.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    hostile: HostileMcpServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that left."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        hostile = self.server.hostile
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        hostile.requests.append(message.get("method", ""))
        hostile.headers.append({name.lower(): value for name, value in self.headers.items()})
        self._send(hostile.reply(message))

    def do_GET(self) -> None:
        self.server.hostile.requests.append("GET")
        self._send(Reply(status=405))

    def do_DELETE(self) -> None:
        self._send(Reply(status=200))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        for name, value in reply.headers:
            self.send_header(name, value)
        if all(isinstance(chunk, bytes) for chunk in reply.chunks) and not reply.hang_up:
            self.send_header("content-length", str(sum(len(chunk) for chunk in _bytes(reply))))
        else:
            self.send_header("connection", "close")
        if reply.hang_up:
            self.send_header("content-length", "1000000")
        self.end_headers()
        for chunk in reply.chunks:
            if isinstance(chunk, bytes):
                self.wfile.write(chunk)
                self.wfile.flush()
            else:
                self.server.hostile.wait(chunk)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def _bytes(reply: Reply) -> Iterator[bytes]:
    yield from (chunk for chunk in reply.chunks if isinstance(chunk, bytes))


def result_reply(message: Message, result: Any) -> Reply:
    """Return the answer of JSON-RPC to a request."""
    return Reply([json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()])


def event(message: Message, result: Any) -> Reply:
    """Return the same answer as an event."""
    body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
    return Reply([f"event: message\ndata: {body}\n\n".encode()], content_type="text/event-stream")


def decent(message: Message) -> Reply:
    """Answer as a server of 2025 does that has a session and one tool, `echo`."""
    match message.get("method"):
        case "initialize":
            began = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            answer = result_reply(message, {**began, "serverInfo": {"name": "hand-made", "version": "1"}})
            return Reply(answer.chunks, headers=(("mcp-session-id", f"s{time.monotonic_ns()}"),))
        case "tools/list":
            return result_reply(message, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            return result_reply(message, {"content": [{"type": "text", "text": "echoed"}]})
        case "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return Reply([json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()])
        case _:
            return Reply(status=202)


def decent_but(**by_method: Callable[[Message], Reply]) -> Callable[[Message], Reply]:
    """Return a correct server's `reply`, except for these methods, whose `/` is written `_`."""

    def reply(message: Message) -> Reply:
        return by_method.get(message.get("method", "").replace("/", "_"), decent)(message)

    return reply
