"""MCP servers made with the `mcp` package itself, each in a process of its own, over loopback.

`with McpServers() as servers: server = servers.start()`; loading the package takes long, so one process does it and
forks the servers. A server answers under /mcp (the newest protocol, and older ones with sessions), under /old as one
of before July 2026 does, with sessions only, and under /sse with the transport that was there first.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

HOST = "127.0.0.1"
MODERN = b"2026-07-28"
ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
Scope = MutableMapping[str, Any]


@dataclass(frozen=True)
class McpServer:
    """One that runs."""

    pid: int
    port: int

    def url(self, path: str = "/mcp") -> str:
        return f"http://{HOST}:{self.port}{path}"

    def kill(self) -> None:
        """End it as the kernel ends one that took too much memory; returns when all of its connections are closed."""
        os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            while True:
                os.kill(self.pid, 0)
                time.sleep(0.001)


class McpServers:
    """Starts servers, and ends the remaining ones with its block."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.tools.mcp_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        return self

    def start(self, port: int = 0) -> McpServer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{port}\n")
        self._process.stdin.flush()
        return McpServer(**json.loads(self._process.stdout.readline()))

    def __exit__(self, *exc_info: object) -> None:
        self._process.communicate("", timeout=20)


def main() -> None:
    """Fork a server for each port that a line of the input names, and end them all at its end."""
    import tests.fakes.tools.mcp_server_tools  # noqa: F401 - loaded once for all that are forked

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pids = []
    for line in sys.stdin:
        listening = listening_at(int(line))
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            asyncio.run(serve(listening))
            os._exit(0)
        pids.append(pid)
        print(json.dumps({"pid": pid, "port": listening.getsockname()[1]}), flush=True)
        listening.close()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def listening_at(port: int) -> socket.socket:
    # asyncio spares sockets the wait for more to send only if they are declared as TCP
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    listening.listen(128)
    return listening


async def serve(listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(application(), log_level="critical", lifespan="on", access_log=False)
    await uvicorn.Server(config).serve(sockets=[listening])


def application() -> Callable[..., Awaitable[None]]:
    """Return all three ways to the same tools as one ASGI application."""
    from tests.fakes.tools.mcp_server_tools import (
        server_with_tools,
    )  # the package takes long to load, and only servers need it

    server = server_with_tools()
    streamable, sse = server.streamable_http_app(), server.sse_app()

    async def app(scope: Scope, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if path.startswith(("/sse", "/messages")):
            await sse(scope, receive, send)
        elif path == "/old":
            if dict(scope["headers"]).get(b"mcp-protocol-version") == MODERN:
                await refuse(send)
            else:
                await streamable({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)
        elif path == "/classic" and scope["method"] == "GET":
            await sse({**scope, "path": "/sse", "raw_path": b"/sse"}, receive, send)
        else:
            await streamable(scope, receive, send)

    return app


async def refuse(send: Any) -> None:
    await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"unknown version"})


if __name__ == "__main__":
    main()
