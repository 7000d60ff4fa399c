"""A route as an ASGI endpoint: read the body up to its limit, call the route in a thread, send the answer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, assert_never
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from turnstone.domain.access.caller import NOBODY, Caller
from turnstone.domain.errors import SHUTTING_DOWN, BodyTooLarge, Overloaded, TurnAwaited, Unauthenticated, UnknownClient
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.values.cancellation import StopSignal
from turnstone.http.clients import unknown_client
from turnstone.http.errors import (
    RETRY_SOON,
    answer_or_error,
    caller_or_error,
    error_reply,
    refusal_reply,
)
from turnstone.http.replies import Answer, ModelReply, PiecesReply, Reply, TurnReply, TurnStreamReply
from turnstone.http.request import Request, ids_in
from turnstone.http.route import Route
from turnstone.http.server.bodies import READ_ON_FACTOR, IncomingBody, headers_by_name, read_body
from turnstone.http.server.hosting import Hosting
from turnstone.http.server.request_lines import RequestLine
from turnstone.http.server.route_threads import RouteThreads
from turnstone.http.server.sending import send_chunks, send_whole
from turnstone.http.streams.departure import Departure
from turnstone.http.streams.pieces import cut

if TYPE_CHECKING:
    from turnstone.http.forms import SentForm
    from turnstone.http.server.waiting import First
    from turnstone.services.streams.broadcast import TurnBroadcast
    from turnstone.services.use_cases import UseCases

JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
NO_PATH = "no such path; GET /v1/openapi.json lists those that there are"
PIECES_AT_ONCE = 3
FILE_LIMIT = "TURNSTONE_MAX_FILE_BYTES"
TIME_TO_HAND_OFF = timedelta(seconds=60)


class BodyLimits(NamedTuple):
    """Bytes that a body of JSON, and the file of a form, may have."""

    body_bytes: int
    file_bytes: int


class ReceivedBody(NamedTuple):
    """The body of a request: a form, or the bytes of any other."""

    body: bytes
    form: SentForm | None = None

    def close(self) -> None:
        """Remove the temporary file of a form."""
        if self.form is not None:
            self.form.close()


class Endpoint:
    """One route, below one or more paths."""

    def __init__(
        self,
        route: Route,
        use_cases: UseCases,
        limits: BodyLimits,
        hosting: Hosting,
        threads: RouteThreads,
    ) -> None:
        self._route = route
        self._hosting = hosting
        self._use_cases = use_cases
        # a queue and a thread of its own: a slow model or disk of one route must not delay the others
        self._threads = threads
        self._limits = limits
        self.dialect = route.dialect

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
                body = IncomingBody(receive, headers_by_name(scope["headers"]))
                answer = await self._answer(path, scope, body, caller, line)
                if isinstance(answer, Reply) and body.has_more:
                    await send_whole(answer, send, line, partial(body.discard, self._most_bytes * READ_ON_FACTOR))
                    return
            await self._send(answer, scope, receive, send, line)

    async def _caller(self, scope: Scope) -> Caller | Reply:
        """Return the caller, or the refusal of a request without one."""
        if self._route.is_open:
            return NOBODY
        try:
            caller = self._hosting.caller(scope)
        except Unauthenticated as refused:
            return error_reply(refused, self._route.dialect)
        if isinstance(caller, Caller):
            return caller
        return await self._threads.do(caller_or_error, caller, self._route.dialect)

    async def _answer(self, path: str, scope: Scope, body: IncomingBody, caller: Caller, line: RequestLine) -> Answer:
        """Return the route's answer, or the refusal of an invalid request. Raises ClientDisconnect."""
        headers = body.headers
        received = await self._received(body, caller.tenant)
        refusal = self._refusal(path, scope, headers)
        if isinstance(received, Reply):
            return refusal or received
        if refusal is not None:
            received.close()
            return refusal
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        line.about.update(ids_in({name: values[0] for name, values in query.items()}))
        request = Request(
            method=scope["method"],
            path=scope["path"],
            path_params=scope["path_params"],
            query=query,
            headers=headers,
            body=received.body,
            caller=caller,
            scheme=self._hosting.scheme(scope),
            use_cases=self._use_cases,
            base=self._hosting.base(scope),
            about=line.about,
            stop=StopSignal() if self._route.is_cancellable else None,
            form=received.form,
        )
        if self._route.is_brief:
            return answer_or_error(self._route.endpoint, request, self._route.dialect)
        try:
            return await self._answer_in_thread(request, body.receive)
        except asyncio.CancelledError:
            # only a stopping server cancels; work that has begun may still complete
            return refusal_reply(ErrorCode.SERVER_STOPPING, SHUTTING_DOWN, RETRY_SOON, self._route.dialect)

    def _refusal(self, path: str, scope: Scope, headers: Mapping[str, str]) -> Reply | None:
        """Return the refusal of a request by its head, None if there is none."""
        if scope["path"].endswith("\n") and (self._route.takes_slashes or not path.endswith("}")):
            # a pattern's end matches before a line feed, too
            return refusal_reply(ErrorCode.PATH_NOT_FOUND, NO_PATH, None, self._route.dialect)
        if self._route.dialect.checks_client and (version := unknown_client(headers)) is not None:
            return error_reply(UnknownClient(version), self._route.dialect)
        return None

    @property
    def _most_bytes(self) -> int:
        """Bytes that a body of JSON, or the file of a form, may have."""
        return self._limits.body_bytes if self._route.file is None else self._limits.file_bytes

    async def _received(self, body: IncomingBody, tenant: str) -> ReceivedBody | Reply:
        """Return the body, or the refusal of one that can't be accepted. Raises ClientDisconnect."""
        if self._route.file is None:
            whole = await read_body(body, self._limits.body_bytes)
            if whole is None:
                return error_reply(BodyTooLarge(self._limits.body_bytes), self._route.dialect)
            return ReceivedBody(whole)
        from turnstone.http.server.forms import REFUSALS, FormRule, read_form  # only where files are sent

        most_bytes, setting = self._limits.file_bytes, FILE_LIMIT
        if self._route.file.most_bytes is not None and self._route.file.most_bytes < most_bytes:
            most_bytes, setting = self._route.file.most_bytes, ""
        rule = FormRule(self._route.file.name, most_bytes, setting)
        do = partial(self._threads.do, on_behalf_of=tenant)
        try:
            return ReceivedBody(b"", await read_form(body, rule, do))
        except REFUSALS as refused:
            return error_reply(refused, self._route.dialect)

    async def _answer_in_thread(self, request: Request, receive: Receive) -> Answer:
        """Return the route's answer, after a wait for a slot if it needs one. Raises ClientDisconnect."""
        call = partial(answer_or_error, self._begun, request, self._route.dialect)
        try:
            return await self._done(partial(call, (Overloaded, TurnAwaited)), request, receive)
        except TurnAwaited as refused:
            awaited = refused
        except Overloaded as refused:
            if not refused.waits_for_slot:
                return error_reply(refused, self._route.dialect)
            return await self._answer_in_slot(call, refused, request, receive)
        return await self._answer_after_turn(call, awaited, request, receive)

    async def _answer_after_turn(
        self, call: partial[Answer], awaited: TurnAwaited, request: Request, receive: Receive
    ) -> Answer:
        """Return the route's answer, after a wait for the session's turn. Raises ClientDisconnect."""
        from turnstone.http.server.waiting import answer_after_turn  # only for routes with patience

        async def attempt(first: First) -> Answer:
            try:
                return await self._done(first(partial(call, (Overloaded, TurnAwaited))), request, receive)
            except Overloaded as refused:
                return await self._answer_in_slot(first(call), refused, request, receive)

        return await answer_after_turn(self._use_cases.session_queues, awaited, receive, attempt, self._route.dialect)

    async def _answer_in_slot(
        self, call: Callable[[], Answer], refused: Overloaded, request: Request, receive: Receive
    ) -> Answer:
        """Return the route's answer, after a wait for a slot. Raises ClientDisconnect."""
        comes_first, may_be_repeated = refused.comes_first, refused.may_be_repeated
        from turnstone.http.server.waiting import wait_for_slot  # only where slots are scarce

        # The route starts again after the wait, so that a waiting request holds no thread and only its body in memory.
        executor = self._use_cases.executor
        try:
            waiter = await wait_for_slot(executor, request, receive, comes_first=comes_first)
        except Overloaded as still_full:
            still_full.may_be_repeated = may_be_repeated
            return error_reply(still_full, self._route.dialect)
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
            case TurnReply(broadcast=broadcast):
                from turnstone.http.streams.turn_answers import outcome  # only where turns are answered

                line.about.update(_ids_of(broadcast))
                leave = partial(self._hand_off, broadcast) if broadcast.is_stored else broadcast.close
                watched = None if broadcast.is_stored else receive
                with self._leaving(leave, scope), _abandoned_after(broadcast):
                    await send_whole(await outcome(answer, self._hosting.base(scope), watched), send, line)
            case TurnStreamReply(broadcast, encoder, is_cursor):
                from turnstone.http.streams.sse import sse_chunks

                line.about.update(_ids_of(broadcast))
                is_closed = is_cursor or not broadcast.is_stored
                leave = broadcast.close if is_closed else partial(self._hand_off, broadcast)
                with self._leaving(leave, scope), _abandoned_after(broadcast):
                    await send_chunks(SSE, sse_chunks(broadcast, encoder, receive), send, line)
            case ModelReply():
                from turnstone.http.streams.model_answers import answered  # only for routes of inference

                outcome_or_chunks = await answered(answer, receive, self._route.dialect, line.about)
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
        try:
            answer = self._route.endpoint(request)
        finally:
            if request.form is not None:
                request.form.close()
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


def _some_of(pieces: Iterator[bytes]) -> deque[bytes]:
    """Return the next few pieces: changing threads for each takes longer than drawing it."""
    return deque(islice(pieces, PIECES_AT_ONCE))


@contextmanager
def _abandoned_after(broadcast: TurnBroadcast) -> Iterator[None]:
    """After the block, stop the run of a turn that is not stored, unless it has ended."""
    try:
        yield
    finally:
        if broadcast.abandon is not None:
            broadcast.abandon(broadcast.ref)


def _ids_of(broadcast: TurnBroadcast) -> dict[str, str]:
    ref = broadcast.ref
    return {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}


def _tenant_of(line: RequestLine) -> str:
    return line.caller.tenant if line.caller else ""
