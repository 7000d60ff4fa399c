"""A proxy on loopback that forwards requests to a server and records requests and answers."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.support.server.servers import HOST, free_port, wait_until

START_TIMEOUT_S = 10.0
TIMEOUT_S = 8.0
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
PASSED_ON = ("content-type", "authorization", "user-agent", "x-llamastack-client-version", "accept")
PASSED_BACK = ("content-type", "www-authenticate", "retry-after", "x-should-retry")
ID = re.compile(
    r"(chatcmpl-|cmpl-|file-|vs_|resp_|trace-)?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
)


@dataclass
class Exchange:
    """One request and its answer.

    Attributes:
        route: method and path, with a star for each id.
        status: the answer's; 0 without an answer in time.
        body: the answer.
        is_stream: whether it was a stream of events.
    """

    route: str
    status: int = 0
    body: bytes = b""
    is_stream: bool = False

    @property
    def events(self) -> list[Any]:
        """The data of each event."""
        lines = (line.removeprefix(b"data:").strip() for line in self.body.splitlines() if line.startswith(b"data:"))
        return [json.loads(line) if line.startswith(b"{") else line.decode() for line in lines]

    @property
    def parsed(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")


@dataclass
class Recorder:
    """A proxy that runs.

    Attributes:
        url: its address.
        exchanges: the exchanges since the last `taken`.
    """

    url: str
    exchanges: list[Exchange] = field(default_factory=list)

    def taken(self) -> list[Exchange]:
        """Return the recorded exchanges, and forget them."""
        taken = list(self.exchanges)
        self.exchanges.clear()
        return taken


@contextmanager
def recorder(target: str) -> Iterator[Recorder]:
    """Pass requests on to the server at that address while the block lasts."""
    port = free_port()
    recording = Recorder(f"http://{HOST}:{port}")

    @asynccontextmanager
    async def connected(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with httpx.AsyncClient(base_url=target, timeout=TIMEOUT_S) as client:
            yield {"client": client, "recording": recording}

    app = Starlette(routes=[Route("/{path:path}", pass_on, methods=METHODS)], lifespan=connected)
    config = uvicorn.Config(app, host=HOST, port=port, log_level="critical", access_log=False, loop="asyncio")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="recorder")
    thread.start()
    wait_until(lambda: server.started, START_TIMEOUT_S, "the recorder did not start")
    try:
        yield recording
    finally:
        server.should_exit = True
        thread.join()


async def pass_on(request: Request) -> StreamingResponse:
    """Pass one request on, and record it with its answer as that passes back."""
    client: httpx.AsyncClient = request.state.client
    exchange = Exchange(f"{request.method} {ID.sub('*', request.url.path)}")
    request.state.recording.exchanges.append(exchange)
    headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    url = httpx.URL(path=request.url.path, query=request.url.query.encode())
    forwarded = client.build_request(request.method, url, headers=headers, content=await request.body())
    try:
        answer = await client.send(forwarded, stream=True)
    except httpx.HTTPError:
        return StreamingResponse(iter([b"{}"]), 504)
    exchange.status = answer.status_code
    exchange.is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")

    async def body() -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_bytes():
                exchange.body += piece
                yield piece
        finally:
            await answer.aclose()

    kept = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
    return StreamingResponse(body(), answer.status_code, kept)
