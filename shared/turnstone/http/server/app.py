"""The ASGI app of declared routes: read the body up to its limit, call the route in a thread, send the answer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from turnstone.domain.access.caller import NOBODY, Caller
from turnstone.domain.errors import SHUTTING_DOWN, BodyTooLarge, Overloaded, Unauthenticated, UnknownClient
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.values.cancellation import StopSignal
from turnstone.http.envelopes import ErrorEnvelope, envelope_below
from turnstone.http.errors import (
    RETRY_SOON,
    answer_or_error,
    caller_or_error,
    error_reply,
    is_log_line_needed,
    refusal_reply,
)
from turnstone.http.family_routes import FamilyRoutes
from turnstone.http.replies import Answer, ModelReply, PiecesReply, Reply, TurnReply, TurnStreamReply
from turnstone.http.request import Request, ids_in
from turnstone.http.route import Route
from turnstone.http.server.bodies import read_body
from turnstone.http.server.clients import unknown_client
from turnstone.http.server.family_paths import SLASHES, FamilyPaths, pattern_of
from turnstone.http.server.hosting import Hosting
from turnstone.http.server.rare_routes import RareRoutes
from turnstone.http.server.request_lines import RequestLine
from turnstone.http.server.route_threads import RouteThreads
from turnstone.http.server.sending import send_chunks, send_whole
from turnstone.http.streams.departure import Departure
from turnstone.http.streams.pieces import cut

if TYPE_CHECKING:
    from turnstone.http.server.other_paths import OtherPath
    from turnstone.services.streams.broadcast import TurnBroadcast
    from turnstone.services.use_cases import UseCases

JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
NO_PATH = "no such path; GET /v1/openapi.json lists those that there are"
NO_METHOD = "this path has no such method; the header Allow lists those that it has"
ROUTE_THREADS = 8
ROUTE_THREADS_OF_A_TENANT = 6
PIECES_AT_ONCE = 3
TIME_TO_HAND_OFF = timedelta(seconds=60)


def build_app(
    routes: Sequence[Route],
    use_cases: UseCases,
    max_body_bytes: int,
    hosting: Hosting,
    lifespan: Callable[[object], AbstractAsyncContextManager[None]] | None = None,
    others: Iterable[OtherPath] = (),
) -> RoutedApp:
    """Return the ASGI app that serves the routes, and refuses every method of the other paths."""
    for server in ("uvicorn.error", "mangum.http"):
        logging.getLogger(server).addFilter(is_log_line_needed)
    made: dict[tuple[str, str], _Endpoint] = {}

    def serve(path: str, methods: Mapping[str, Route], threads: RouteThreads | None = None) -> _Served:
        for route in methods.values():
            if (route.method, route.path) not in made:
                made[route.method, route.path] = _Endpoint(route, use_cases, max_body_bytes, hosting, threads)
        endpoints = {method: made[method, route.path] for method, route in methods.items()}
        return _Served(path, _ByMethod(path, endpoints, hosting))

    served: list[BaseRoute] = []
    if isinstance(routes, FamilyRoutes):
        served.append(FamilyPaths(routes, serve))
    else:
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            for path in () if route.is_rare else route.paths:
                by_path.setdefault(pattern_of(path, takes_slashes=route.takes_slashes), {})[route.method] = route
        served.extend(serve(path, methods) for path, methods in by_path.items())
    if others:
        from turnstone.http.server.other_paths import OtherPaths  # only in the function of unserved paths

        served.append(OtherPaths(others, partial(_refuse_method, hosting)))
    if not isinstance(routes, FamilyRoutes) and (rare := [route for route in routes if route.is_rare]):
        served.append(RareRoutes(rare, partial(serve, threads=_route_threads("rare routes", hosting))))
    # a router alone: errors are caught here, so the layers of a whole Starlette application only cost time
    return RoutedApp(routes, hosting, routes=served, redirect_slashes=False, lifespan=lifespan)


class RoutedApp(Router):
    """A router that refuses paths without a route in the envelope of their dialect."""

    def __init__(self, declared: Sequence[Route], hosting: Hosting, **more: Any) -> None:
        super().__init__(**more)
        self._declared = declared
        self._hosting = hosting

    async def not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = refusal_reply(ErrorCode.PATH_NOT_FOUND, NO_PATH, None, self.envelope_of(scope))
            await _send_refusal(refusal, scope, send, self._hosting)
        else:
            await super().not_found(scope, receive, send)

    def envelope_of(self, scope: Scope) -> ErrorEnvelope:
        """Return the envelope for a request refused before its route is called."""
        for route in self.routes:
            served = route.served_at(scope) if isinstance(route, FamilyPaths) else route
            if isinstance(served, _Served) and served.matches(scope)[0] is not Match.NONE:
                return served.envelope_of(scope)
        return envelope_below(scope["path"], self._declared)


class _Served(StarletteRoute):
    """A path of the router; its app also answers methods without a route."""

    def __init__(self, path: str, by_method: _ByMethod) -> None:
        super().__init__(path, by_method, methods=by_method.methods)
        self._by_method = by_method

    def envelope_of(self, scope: Scope) -> ErrorEnvelope:
        """Return the envelope of the request's method, of another method if this one is not served."""
        return self._by_method.envelope_of(scope["method"])

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class _ByMethod:
    """The routes of one path as an ASGI app; the refusal of a method lists all methods of the path."""

    def __init__(self, path: str, endpoints: Mapping[str, _Endpoint], hosting: Hosting) -> None:
        self._path = path.replace(SLASHES, "}")
        self._endpoints = {**endpoints, "HEAD": endpoints["GET"]} if "GET" in endpoints else endpoints
        self._hosting = hosting
        self.methods = list(self._endpoints)

    def envelope_of(self, method: str) -> ErrorEnvelope:
        return self._endpoints.get(method, self._endpoints[self.methods[0]]).envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            await _refuse_method(self._hosting, self.methods, self.envelope_of(scope["method"]), scope, send)
        else:
            await endpoint.answer(self._path, scope, receive, send)


class _Endpoint:
    """One route, below one or more paths."""

    def __init__(
        self,
        route: Route,
        use_cases: UseCases,
        max_body_bytes: int,
        hosting: Hosting,
        threads: RouteThreads | None = None,
    ) -> None:
        self._route = route
        self._hosting = hosting
        self._use_cases = use_cases
        # threads of its own: a slow model or disk of one route must not delay the others
        self._threads = threads or _route_threads(f"{route.method} {route.path}", hosting)
        self._max_body_bytes = max_body_bytes
        self.envelope = route.envelope

    async def answer(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to one of the route's paths."""
        request_id = self._hosting.request_id(scope)
        with RequestLine(self._route.method, path, request_id, dict(scope["path_params"])) as line:
            caller = await self._caller(scope)
            answer: Answer
            if isinstance(caller, Reply):
                answer = caller
            else:
                line.caller = None if self._route.is_open else caller
                answer = await self._answer(scope, receive, caller, line)
            await self._send(answer, scope, receive, send, line)

    async def _caller(self, scope: Scope) -> Caller | Reply:
        """Return the caller, or the refusal of a request without one."""
        if self._route.is_open:
            return NOBODY
        try:
            caller = self._hosting.caller(scope)
        except Unauthenticated as refused:
            return error_reply(refused, self._route.envelope)
        if isinstance(caller, Caller):
            return caller
        return await self._threads.do(caller_or_error, caller, self._route.envelope)

    async def _answer(self, scope: Scope, receive: Receive, caller: Caller, line: RequestLine) -> Answer:
        """Return the route's answer, or the refusal of an invalid request. Raises ClientDisconnect."""
        body = await read_body(receive, self._max_body_bytes)
        if scope["path"].endswith("\n") and (self._route.takes_slashes or not self._route.path.endswith("}")):
            # a pattern's end matches before a line feed, too
            return refusal_reply(ErrorCode.PATH_NOT_FOUND, NO_PATH, None, self._route.envelope)
        if body is None:
            return error_reply(BodyTooLarge(self._max_body_bytes), self._route.envelope)
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        line.about.update(ids_in({name: values[0] for name, values in query.items()}))
        request = Request(
            method=scope["method"],
            path=scope["path"],
            path_params=scope["path_params"],
            query=query,
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body=body,
            caller=caller,
            scheme=self._hosting.scheme(scope),
            use_cases=self._use_cases,
            base=self._hosting.base(scope),
            about=line.about,
            stop=StopSignal() if self._route.is_cancellable else None,
        )
        if (version := unknown_client(request.headers)) is not None:
            return error_reply(UnknownClient(version), self._route.envelope)
        if self._route.is_brief:
            return answer_or_error(self._route.endpoint, request, self._route.envelope)
        try:
            return await self._answer_in_thread(request, receive)
        except asyncio.CancelledError:
            # only a stopping server cancels; work that has begun may still complete
            return refusal_reply(ErrorCode.SERVER_STOPPING, SHUTTING_DOWN, RETRY_SOON, self._route.envelope)

    async def _answer_in_thread(self, request: Request, receive: Receive) -> Answer:
        """Return the route's answer, after a wait for a slot if it needs one. Raises ClientDisconnect."""
        call = partial(answer_or_error, self._begun, request, self._route.envelope)
        try:
            return await self._done(partial(call, (Overloaded,)), request, receive)
        except Overloaded as refused:
            comes_first, may_be_repeated = refused.comes_first, refused.may_be_repeated
        from turnstone.http.server.waiting import wait_for_slot  # only where slots are scarce

        # The route starts again after the wait, so that a waiting request holds no thread and only its body in memory.
        executor = self._use_cases.executor
        try:
            waiter = await wait_for_slot(executor, request, receive, comes_first=comes_first)
        except Overloaded as refused:
            refused.may_be_repeated = may_be_repeated
            return error_reply(refused, self._route.envelope)
        return await self._done(partial(executor.within, waiter, call), request, receive, comes_first=True)

    async def _done(
        self, call: Callable[[], Answer], request: Request, receive: Receive, *, comes_first: bool = False
    ) -> Answer:
        """Return the result of the call in a thread of the route. Raises ClientDisconnect if it was cancelled."""
        doing = self._threads.do(call, on_behalf_of=request.caller.tenant, comes_first=comes_first)
        if request.stop is None:
            return await doing
        departure = Departure(request.stop.set)
        with departure.watched(receive):
            answer = await doing
        if departure.has_left:
            raise ClientDisconnect
        return answer

    async def _send(self, answer: Answer, scope: Scope, receive: Receive, send: Send, line: RequestLine) -> None:
        match answer:
            case Reply():
                if answer.pieces is None:
                    await send_whole(answer, send, line)
                else:
                    line.about.update(answer.about)
                    content_type = (b"content-type", answer.content_type.encode())
                    drawn = self._drawn(answer.pieces, receive, _tenant_of(line))
                    await send_chunks(content_type, drawn, send, line, answer.headers)
            case PiecesReply(pieces):
                await send_chunks(JSON, self._drawn(pieces, receive, _tenant_of(line)), send, line)
            case TurnReply(broadcast, encode):
                from turnstone.http.streams.turn_answers import outcome  # only where turns are answered

                line.about.update(_ids_of(broadcast))
                with self._leaving(partial(self._hand_off, broadcast), scope):
                    await send_whole(await outcome(broadcast, encode, self._hosting.base(scope)), send, line)
            case TurnStreamReply(broadcast, encode, has_ids):
                from turnstone.http.streams.sse import sse_chunks

                line.about.update(_ids_of(broadcast))
                leave = broadcast.close if has_ids else partial(self._hand_off, broadcast)
                with self._leaving(leave, scope):
                    chunks = sse_chunks(broadcast, encode, receive, has_ids=has_ids)
                    await send_chunks(SSE, chunks, send, line)
            case ModelReply():
                from turnstone.http.streams.model_answers import answered  # only for routes of inference

                outcome_or_chunks = await answered(answer, receive, self._route.envelope, line.about)
                if isinstance(outcome_or_chunks, Reply):
                    await send_whole(outcome_or_chunks, send, line)
                else:
                    await send_chunks(SSE, outcome_or_chunks, send, line)
            case _:
                assert_never(answer)

    def _hand_off(self, broadcast: TurnBroadcast) -> None:
        """Hand the turn off to another process."""
        self._use_cases.turns.hand_off(broadcast.ref)

    @contextmanager
    def _leaving(self, leave: Callable[[], None], scope: Scope) -> Iterator[None]:
        """Within the block, call `leave` shortly before the process is ended."""
        ends_at = self._hosting.ends_at(scope)
        if ends_at is None:
            yield
            return
        left = ends_at - TIME_TO_HAND_OFF - datetime.now(UTC)
        timer = asyncio.get_running_loop().call_later(max(0.0, left.total_seconds()), self._threads.submit, leave)
        try:
            yield
        finally:
            timer.cancel()

    def _begun(self, request: Request) -> Answer:
        """Return the endpoint's answer with its first pieces read, so that a failing read is still a status."""
        if request.stop is not None and request.stop.is_set:
            # set while the request waited
            return refusal_reply(ErrorCode.CLIENT_DISCONNECTED, "the client closed the connection")
        answer = self._route.endpoint(request)
        if isinstance(answer, TurnStreamReply) and answer.broadcast.restore is not None:
            from turnstone.http.streams.sse import past_events

            answer = Reply(b"", content_type=SSE[1].decode(), pieces=past_events(answer, answer.broadcast.restore))
        if isinstance(answer, Reply | PiecesReply) and answer.pieces is not None:
            pieces = cut(answer.pieces)
            return answer._replace(pieces=chain(_some_of(pieces), pieces))
        return answer

    async def _drawn(self, pieces: Iterator[bytes], receive: Receive, tenant: str) -> AsyncGenerator[bytes]:
        """Yield the pieces until the client disconnects. Threads of the route read them, because that may block."""
        departure = Departure()
        with departure.watched(receive):
            some = _some_of(pieces)  # already drawn by `_begun`
            while some:
                while some:
                    yield some.popleft()
                    if departure.has_left:
                        return
                some = await self._threads.do(_some_of, pieces, on_behalf_of=tenant)


def _route_threads(name: str, hosting: Hosting) -> RouteThreads:
    return RouteThreads(ROUTE_THREADS, name, ROUTE_THREADS_OF_A_TENANT if hosting.has_tenants else None)


def _some_of(pieces: Iterator[bytes]) -> deque[bytes]:
    """Return the next few pieces: changing threads for each takes longer than drawing it."""
    return deque(islice(pieces, PIECES_AT_ONCE))


def _ids_of(broadcast: TurnBroadcast) -> dict[str, str]:
    ref = broadcast.ref
    return {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}


async def _refuse_method(
    hosting: Hosting, methods: Iterable[str], envelope: ErrorEnvelope, scope: Scope, send: Send
) -> None:
    """Answer a request whose path lacks its method."""
    allowed = {"allow": ", ".join(methods)}
    await _send_refusal(refusal_reply(ErrorCode.METHOD_NOT_ALLOWED, NO_METHOD, allowed, envelope), scope, send, hosting)


async def _send_refusal(reply: Reply, scope: Scope, send: Send, hosting: Hosting) -> None:
    """Answer a request without a route for its path or method."""
    with RequestLine(scope["method"], None, hosting.request_id(scope), {"path": scope["path"]}) as line:
        await send_whole(reply, send, line)


def _tenant_of(line: RequestLine) -> str:
    return line.caller.tenant if line.caller else ""
