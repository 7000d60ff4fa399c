"""The ASGI app made of declared routes: reads the size-capped body, calls the route in its lane, sends its answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, assert_never
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from turnstone.domain.caller import Caller
from turnstone.domain.errors import BodyTooLarge, Overloaded, Unauthenticated, UnknownClient
from turnstone.domain.stopping import StopSignal
from turnstone.http.clients import unknown_client
from turnstone.http.departure import Departure
from turnstone.http.errors import RETRY_SOON, answer_or_error, caller_or_error, detail_reply, error_reply, in_one_line
from turnstone.http.lane import Lane
from turnstone.http.pieces import cut
from turnstone.http.routes import (
    Answer,
    ModelReply,
    ModelStreamReply,
    PiecesReply,
    Reply,
    Request,
    Route,
    TurnReply,
    TurnStreamReply,
)
from turnstone.http.surroundings import Surroundings

if TYPE_CHECKING:
    from turnstone.services.application import Application
    from turnstone.services.broadcast import TurnBroadcast

log = logging.getLogger(__name__)
JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
NO_CACHE = (b"cache-control", b"no-cache")
READ_ON_FACTOR = 4
ROUTE_THREADS = 8
ROUTE_THREADS_OF_A_TENANT = 6
PIECES_AT_ONCE = 3
LEFT_FOR_HAND_OVER = timedelta(seconds=60)


def build_app(
    routes: Sequence[Route],
    application: Application,
    max_body_bytes: int,
    surroundings: Surroundings,
    lifespan: Callable[[object], AbstractAsyncContextManager[None]] | None = None,
) -> Router:
    """Return the ASGI app that serves the routes."""
    for server in ("uvicorn.error", "mangum.http"):
        logging.getLogger(server).addFilter(in_one_line)
    by_path: dict[str, dict[str, _Endpoint]] = {}
    for route in routes:
        endpoint = _Endpoint(route, application, max_body_bytes, surroundings)
        for path in route.paths:
            by_path.setdefault(_pattern(route, path), {})[route.method] = endpoint
    served = [_Served(path, _ByMethod(methods), methods=list(methods)) for path, methods in by_path.items()]
    # a router alone: the layers of a whole Starlette application catch what is caught here already
    return _Router(routes=served, redirect_slashes=False, lifespan=lifespan)


def _pattern(route: Route, path: str) -> str:
    return path.removesuffix("}") + ":path}" if route.takes_slashes else path


class _Router(Router):
    """Routes of which none may serve a path."""

    async def not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _send_whole(detail_reply(404, "Not Found"), send)
        else:
            await super().not_found(scope, receive, send)


class _Served(StarletteRoute):
    """A path, which may not serve a method."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods and scope["method"] not in self.methods:
            allowed = {"allow": ", ".join(self.methods)}
            await _send_whole(detail_reply(405, "Method Not Allowed", allowed), send)
        else:
            await self.app(scope, receive, send)


class _ByMethod:
    """The routes of one path as an ASGI app, so that a refused method is told all that there are."""

    def __init__(self, endpoints: Mapping[str, _Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints[method](scope, receive, send)


class _Endpoint:
    """One route as an ASGI app."""

    def __init__(self, route: Route, application: Application, max_body_bytes: int, surroundings: Surroundings) -> None:
        self._route = route
        self._surroundings = surroundings
        self._application = application
        # a lane of its own, so that no route waits for the threads of one whose model or disk is slow
        most_for_one = ROUTE_THREADS_OF_A_TENANT if surroundings.has_tenants else None
        self._lane = Lane(ROUTE_THREADS, f"{route.method} {route.path}", most_for_one)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        try:
            caller = await self._caller(scope)
            answer: Answer
            if isinstance(caller, Reply):
                answer = caller
            else:
                answer = await self._answer(scope, receive, caller)
        except ClientDisconnect:
            return
        status = await self._send(answer, scope, receive, send, caller.tenant if isinstance(caller, Caller) else "")
        took_ms = round((time.perf_counter() - began) * 1_000, 1)
        told = {"status": status, "took_ms": took_ms, "request_id": self._surroundings.request_id(scope)}
        log.info("%s %s %d %.1f ms", self._route.method, self._route.path, status, took_ms, extra=told)

    async def _caller(self, scope: Scope) -> Caller | Reply:
        """Return who sent the request, or what to answer to nobody."""
        try:
            caller = self._surroundings.caller(scope)
        except Unauthenticated as refused:
            return error_reply(refused, self._route.dialect)
        if isinstance(caller, Caller):
            return caller
        return await self._lane.do(caller_or_error, caller, self._route.dialect)

    async def _answer(self, scope: Scope, receive: Receive, caller: Caller) -> Answer:
        """Return what the route answers, or what is wrong with the request. Raises ClientDisconnect."""
        body = await _body(receive, self._max_body_bytes)
        if scope["path"].endswith("\n") and (self._route.takes_slashes or not self._route.path.endswith("}")):
            return detail_reply(404, "Not Found")  # a pattern's end matches before a line feed, too
        if body is None:
            return error_reply(BodyTooLarge(self._max_body_bytes), self._route.dialect)
        request = Request(
            method=scope["method"],
            path=scope["path"],
            path_params=scope["path_params"],
            query=parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body=body,
            caller=caller,
            scheme=self._surroundings.scheme(scope),
            application=self._application,
            stop=StopSignal() if self._route.breaks_off else None,
        )
        if (version := unknown_client(request.headers)) is not None:
            return error_reply(UnknownClient(version), self._route.dialect)
        if self._route.is_brief:
            return answer_or_error(self._route.endpoint, request, self._route.dialect)
        try:
            return await self._answer_in_lane(request, receive)
        except asyncio.CancelledError:
            # only the server cancels, when its time to stop is over; what was begun may still be done
            return detail_reply(503, "the server stops; send the request again", RETRY_SOON, self._route.dialect)

    async def _answer_in_lane(self, request: Request, receive: Receive) -> Answer:
        """Return what the route answers, once there is a place if it needs one. Raises ClientDisconnect."""
        call = partial(answer_or_error, self._begun, request, self._route.dialect)
        try:
            return await self._done(partial(call, (Overloaded,)), request, receive)
        except Overloaded as refused:
            comes_first, may_be_repeated = refused.comes_first, refused.may_be_repeated
        from turnstone.http.waiting import a_place  # only where places are scarce

        # Whatever the route found out is found out anew: the wait is for requests, which hold no thread, nor more
        # memory than they were sent with.
        executor = self._application.executor
        try:
            waiter = await a_place(executor, request, receive, comes_first=comes_first)
        except Overloaded as refused:
            refused.may_be_repeated = may_be_repeated
            return error_reply(refused, self._route.dialect)
        return await self._done(partial(executor.within, waiter, call), request, receive, comes_first=True)

    async def _done(
        self, call: Callable[[], Answer], request: Request, receive: Receive, *, comes_first: bool = False
    ) -> Answer:
        """Return what the call returns, done in the lane. Raises ClientDisconnect if it was broken off."""
        doing = self._lane.do(call, on_behalf_of=request.caller.tenant, comes_first=comes_first)
        if request.stop is None:
            return await doing
        departure = Departure(request.stop.give)
        with departure.watched(receive):
            answer = await doing
        if departure.has_left:
            raise ClientDisconnect
        return answer

    async def _send(self, answer: Answer, scope: Scope, receive: Receive, send: Send, tenant: str) -> int:
        match answer:
            case Reply():
                if answer.pieces is None:
                    return await _send_whole(answer, send)
                content_type = (b"content-type", answer.content_type.encode())
                drawn = self._drawn(answer.pieces, receive, tenant)
                return await _send_chunks(content_type, drawn, send, answer.headers)
            case PiecesReply(pieces):
                return await _send_chunks(JSON, self._drawn(pieces, receive, tenant), send)
            case TurnReply(broadcast, encode):
                from turnstone.http.turn_answers import outcome  # only where turns are answered

                with self._leaving(partial(self._hand_over, broadcast), scope):
                    return await _send_whole(await outcome(broadcast, encode), send)
            case TurnStreamReply(broadcast, encode, has_ids):
                from turnstone.http.sse import sse_chunks

                leave = broadcast.close if has_ids else partial(self._hand_over, broadcast)
                with self._leaving(leave, scope):
                    chunks = sse_chunks(broadcast, encode, receive, has_ids=has_ids)
                    return await _send_chunks(SSE, chunks, send)
            case ModelReply() | ModelStreamReply():
                from turnstone.http.model_answers import answered  # only where models are asked directly

                told = await answered(answer, receive, self._route.dialect)
                return await (_send_whole(told, send) if isinstance(told, Reply) else _send_chunks(SSE, told, send))
            case _:
                assert_never(answer)

    def _hand_over(self, broadcast: TurnBroadcast) -> None:
        """Leave the turn to another process."""
        self._application.turns.hand_over(broadcast.ref)

    @contextmanager
    def _leaving(self, leave: Callable[[], None], scope: Scope) -> Iterator[None]:
        """Within the block, do this when there is little time left for this process."""
        ends_at = self._surroundings.ends_at(scope)
        if ends_at is None:
            yield
            return
        left = ends_at - LEFT_FOR_HAND_OVER - datetime.now(UTC)
        timer = asyncio.get_running_loop().call_later(max(0.0, left.total_seconds()), self._lane.submit, leave)
        try:
            yield
        finally:
            timer.cancel()

    def _begun(self, request: Request) -> Answer:
        """Return the endpoint's answer, its first pieces drawn: what can't be read at all is still a status."""
        if request.stop is not None and request.stop.is_given:
            return detail_reply(503, "the client has left")  # while it waited; nobody is there to read this
        answer = self._route.endpoint(request)
        if isinstance(answer, TurnStreamReply) and answer.broadcast.restore is not None:
            from turnstone.http.sse import past_events

            answer = Reply(b"", content_type=SSE[1].decode(), pieces=past_events(answer, answer.broadcast.restore))
        if isinstance(answer, Reply | PiecesReply) and answer.pieces is not None:
            pieces = cut(answer.pieces)
            return answer._replace(pieces=chain(_some_of(pieces), pieces))
        return answer

    async def _drawn(self, pieces: Iterator[bytes], receive: Receive, tenant: str) -> AsyncGenerator[bytes]:
        """Yield the pieces, drawn in the lane because they read the store, as long as the client is there."""
        departure = Departure()
        with departure.watched(receive):
            some = _some_of(pieces)  # which were drawn at the beginning
            while some:
                while some:
                    yield some.popleft()
                    if departure.has_left:
                        return
                some = await self._lane.do(_some_of, pieces, on_behalf_of=tenant)


def _some_of(pieces: Iterator[bytes]) -> deque[bytes]:
    """Return the next few pieces: a change of threads for each takes longer than to draw it."""
    return deque(islice(pieces, PIECES_AT_ONCE))


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
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.status != 204:  # which has no body, not even an empty one
        length = (b"content-length", str(len(reply.body)).encode())
        headers = [(b"content-type", reply.content_type.encode()), length, *headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
    return reply.status


async def _send_chunks(
    content_type: tuple[bytes, bytes], chunks: AsyncGenerator[bytes], send: Send, own: Mapping[str, str] | None = None
) -> int:
    headers = [content_type, *((name.encode(), value.encode()) for name, value in (own or {}).items())]
    if "cache-control" not in (own or {}):
        headers.append(NO_CACHE)
    async with aclosing(chunks):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return 200
