"""The ASGI app made of declared routes: reads the size-capped body, calls the route in a pool, sends its answer."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import assert_never
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Message, Receive, Scope, Send

from turnstone.domain.caller import LOCAL_CALLER
from turnstone.domain.errors import BodyTooLarge
from turnstone.domain.events import TurnAwaitsInput, TurnCompleted, TurnFailed
from turnstone.http.errors import RETRY_SOON, answer_or_error, detail_reply, error_reply, failure_reply
from turnstone.http.routes import Answer, PiecesReply, Reply, Request, Route, TurnReply, TurnStreamReply
from turnstone.http.sse import heard, sse_chunks
from turnstone.services.application import Application
from turnstone.services.broadcast import TurnBroadcast

log = logging.getLogger(__name__)
JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
NO_CACHE = (b"cache-control", b"no-cache")
READ_ON_FACTOR = 4
ROUTE_THREADS = 8
PIECES_AT_ONCE = 50
BYTES_AT_ONCE = 1_000_000


def build_app(
    routes: Sequence[Route],
    application: Application,
    max_body_bytes: int,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """Return the ASGI app that serves the routes."""
    served = [
        StarletteRoute(route.path, _Endpoint(route, application, max_body_bytes), methods=[route.method])
        for route in routes
    ]
    app = Starlette(routes=served, exception_handlers={HTTPException: _unrouted}, lifespan=lifespan)
    app.router.redirect_slashes = False
    return app


class _Endpoint:
    """One route as an ASGI app."""

    def __init__(self, route: Route, application: Application, max_body_bytes: int) -> None:
        self._route = route
        self._application = application
        # a pool of its own, so that no route waits for the threads of one whose model or disk is slow
        self._pool = ThreadPoolExecutor(ROUTE_THREADS, thread_name_prefix=f"{route.method} {route.path}")
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            body = await _body(receive, self._max_body_bytes)
        except ClientDisconnect:
            return
        if scope["path"].endswith("\n") and not self._route.path.endswith("}"):
            answer: Answer = detail_reply(404, "Not Found")  # a pattern's end matches before a line feed, too
        elif body is None:
            answer = error_reply(BodyTooLarge(self._max_body_bytes))
        else:
            request = self._request(scope, body)
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._pool, answer_or_error, self._route.endpoint, request)
        status = await self._send(answer, send)
        took_ms = (time.perf_counter() - began) * 1_000
        log.info("%s %s %d %.1f ms", self._route.method, self._route.path, status, took_ms)

    def _request(self, scope: Scope, body: bytes) -> Request:
        return Request(
            method=scope["method"],
            path=scope["path"],
            path_params=scope["path_params"],
            query=parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body=body,
            caller=LOCAL_CALLER,
            application=self._application,
        )

    async def _send(self, answer: Answer, send: Send) -> int:
        match answer:
            case TurnReply(broadcast):
                return await _send_whole(await _outcome(broadcast), send)
            case Reply():
                return await _send_whole(answer, send)
            case PiecesReply(pieces):
                return await _send_chunks(JSON, self._in_pool(pieces), send)
            case TurnStreamReply(broadcast, encode):
                return await _send_chunks(SSE, sse_chunks(broadcast, encode), send)
            case _:
                assert_never(answer)

    async def _in_pool(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what the iterator yields, drawn from it in the pool because it reads the store."""
        loop = asyncio.get_running_loop()
        while chunk := await loop.run_in_executor(self._pool, _some_of, pieces):
            yield chunk


def _some_of(pieces: Iterator[bytes]) -> bytes:
    """Return a few of the pieces in one, not many and not much; nothing at the end."""
    some = bytearray()
    for number, piece in enumerate(pieces, 1):
        some += piece
        if number == PIECES_AT_ONCE or len(some) >= BYTES_AT_ONCE:
            break
    return bytes(some)


async def _outcome(broadcast: TurnBroadcast) -> Reply:
    """Return the whole answer for a turn, once it has ended or waits for its client."""
    try:
        async for events in heard(broadcast, timeout_s=None):
            for event in events:
                if isinstance(event, TurnCompleted | TurnAwaitsInput):
                    return Reply(event.turn.model_dump_json().encode())
                if isinstance(event, TurnFailed):
                    return failure_reply(event.failure)
    except asyncio.CancelledError:
        return detail_reply(503, "the server stops; send the request again, it will find its turn", RETRY_SOON)
    return detail_reply(500, "internal server error")


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Return the request's body, None if it is over the limit. Raises ClientDisconnect if it does not come whole.

    A body somewhat over the limit is read on to its end, so that a client that sends before it listens gets its 413.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        if not message.get("more_body", False) or size > limit * READ_ON_FACTOR:
            return b"".join(parts) if size <= limit else None


async def _send_whole(reply: Reply, send: Send) -> int:
    length = (b"content-length", str(len(reply.body)).encode())
    headers = [JSON, length, *((name.encode(), value.encode()) for name, value in reply.headers.items())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
    return reply.status


async def _send_chunks(content_type: tuple[bytes, bytes], chunks: AsyncIterator[bytes], send: Send) -> int:
    await send({"type": "http.response.start", "status": 200, "headers": [content_type, NO_CACHE]})
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return 200


async def _unrouted(_: StarletteRequest, error: Exception) -> Response:
    """Answer for a path or method that no route serves."""
    if not isinstance(error, HTTPException):
        raise error
    reply = detail_reply(error.status_code, error.detail)
    return Response(reply.body, reply.status, {"content-type": "application/json", **(error.headers or {})})
