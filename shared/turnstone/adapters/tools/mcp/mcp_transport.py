"""HTTP to an MCP server without exceptions: a request's failure becomes its answer.

The `mcp` package closes a whole connection, with all of its calls, for a network error in one of them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import httpx2

from turnstone.adapters.tools.mcp.mcp_trouble import McpTrouble
from turnstone.domain.errors import FetchRefused, TurnstoneError

NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
EVENTS = "text/event-stream"
JSON = "application/json"
BROKEN = "the connection broke before it answered"
SESSION = "mcp-session-id"
NOT_HERE = (404, 405)
REFUSALS = (401, 403)
KEPT_HEADERS = ("content-type", SESSION)
_CODE = -32000
# the guard ends a body of four times that length, and with it all pending answers
MUCH_BYTES = 4 * 1024 * 1024
POSTS_S = 1.0
DRAIN_S = 0.5
DRAIN_BYTES = 64 * 1024


class OnEvents(Protocol):
    """Callbacks of an event stream opened by a GET: large, ended, or failed."""

    def __call__(self, *, is_over: bool) -> None: ...


class AnsweringTransport(httpx2.AsyncBaseTransport):
    """Forwards requests, limits the size of answers, and reports failures in JSON-RPC.

    Attributes:
        trouble: the last failure of a POST.
        calls_sent: the number of tool calls passed on to the server, whatever became of them.
        trouble_opening: the last failure of a GET, which opens a stream of events.
        refuses_posts: whether no POST was ever accepted, as by a server that supports only SSE.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, most_bytes: int, on_events: OnEvents) -> None:
        """Prepare a transport.

        Args:
            inner: the transport that sends requests.
        """
        self._inner = inner
        self._most_bytes = most_bytes
        self._on_events = on_events
        self._mark = secrets.token_hex(8)
        self._takes_posts = False
        self._are_events_over = False
        self._posts = 0
        self._no_posts = asyncio.Event()
        self._no_posts.set()
        self.calls_sent = 0
        self.trouble: McpTrouble | None = None
        self.trouble_opening: McpTrouble | None = None
        self.refuses_posts = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"  # a small compressed answer could expand without limit
        if request.method != "POST":
            return await self._answered(request)
        if self._are_events_over and _answered_in_events(request):
            return self._failed(request, McpTrouble(BROKEN, is_unsent=True))
        self.calls_sent += json.loads(request.content).get("method") == "tools/call"
        self._posts += 1
        self._no_posts.clear()
        try:
            return await self._answered(request)
        finally:
            self._posts -= 1
            if not self._posts:
                self._no_posts.set()

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
            return await self._checked(request, response)
        except FetchRefused as refused:  # as the next, of the guard
            return self._failed(request, McpTrouble(str(refused), is_unsent=True, is_forbidden=True))
        except TurnstoneError as problem:
            return self._failed(request, McpTrouble(str(problem)))
        except NEVER_SENT:
            return self._failed(request, McpTrouble("it can't be reached", is_unsent=True))
        except httpx2.TimeoutException:
            return self._failed(request, McpTrouble("it was silent for too long"))
        except httpx2.TransportError:
            return self._failed(request, McpTrouble(BROKEN))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _before_end_of_events(self) -> None:
        """Return when POSTs under way are answered, which shows whether their calls were refused unread."""
        self._are_events_over = True
        self._on_events(is_over=False)
        with suppress(TimeoutError):
            async with asyncio.timeout(POSTS_S):
                await self._no_posts.wait()

    def trouble_in(self, error_data: object) -> McpTrouble | None:
        """Return this transport's failure behind a JSON-RPC error; None if the error is the server's own."""
        match error_data:
            case {"mark": self._mark, "why": str() as why, "traits": dict() as traits}:
                return McpTrouble(why, **traits)
            case _:
                return None

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.stream.aclose()  # type: ignore[union-attr] # this one is made for asynchronous use
            return self._failed(request, McpTrouble("it compresses its answers against the request's Accept-Encoding"))
        media_type = response.headers.get("content-type", "").lower()
        if response.status_code < 300 and media_type.startswith(EVENTS):
            self._takes_posts = self._takes_posts or request.method == "POST"
            events: httpx2.AsyncByteStream = response.stream  # type: ignore[assignment] # as above
            is_get = request.method == "GET"
            response.stream = (
                _Watched(events, self._on_events, self._before_end_of_events) if is_get else _Drained(events)
            )
            return response
        body = await self._body(response)
        if body is None:
            return self._failed(request, McpTrouble(f"its answer has more than {self._most_bytes} bytes"))
        if response.status_code >= 300:
            return self._refused(request, response, body)
        if request.method == "POST":
            self._takes_posts = True
            if _expects_answer(request) and not (response.status_code == 200 and media_type.startswith(JSON)):
                return self._failed(request, McpTrouble("its answer does not follow MCP"))
        return _whole(request, response, body)

    async def _body(self, response: httpx2.Response) -> bytes | None:
        """Return the response's body, None if it is too large."""
        body = bytearray()
        try:
            async for chunk in response.stream:  # type: ignore[union-attr] # as above
                body += chunk
                if len(body) > self._most_bytes:
                    return None
        finally:
            await response.stream.aclose()  # type: ignore[union-attr] # as above
        return bytes(body)

    def _refused(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        status = response.status_code
        if status < 400:
            return self._failed(request, McpTrouble("it sends callers to another address, which is not followed"))
        if status in NOT_HERE and request.method == "POST" and not self._takes_posts:
            self.refuses_posts = True
        if status == 404 and (SESSION in request.headers or _answered_in_events(request)):
            return self._failed(request, McpTrouble("it has forgotten the session", is_unsent=True), status)
        if status in REFUSALS:  # whatever its body: it may also be an error
            return self._failed(request, McpTrouble(f"it answered with status {status}", refused=status), status)
        if _is_rpc_error(body):
            return _whole(request, response, body)
        return self._failed(request, McpTrouble(f"it answered with status {status}"), status)

    def _failed(self, request: httpx2.Request, trouble: McpTrouble, status: int = 502) -> httpx2.Response:
        if request.method == "POST":
            self.trouble = trouble
            self._on_events(is_over=True)
        elif request.method == "GET":
            self.trouble_opening = trouble
        error_data = {
            "mark": self._mark,
            "why": str(trouble),
            "traits": {
                "is_unsent": trouble.is_unsent,
                "is_forbidden": trouble.is_forbidden,
                "refused": trouble.refused,
            },
        }
        error = {"code": _CODE, "message": str(trouble), "data": error_data}
        return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


class _Watched(httpx2.AsyncByteStream):
    """A stream of events with callbacks for much data and for its end."""

    def __init__(
        self, stream: httpx2.AsyncByteStream, on_events: OnEvents, before_end: Callable[[], Awaitable[None]]
    ) -> None:
        self._stream = stream
        self._on_events = on_events
        self._before_end = before_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        try:
            async for chunk in self._stream:
                size_bytes += len(chunk)
                if size_bytes > MUCH_BYTES:
                    self._on_events(is_over=False)
                yield chunk
            await self._before_end()
        except (httpx2.TransportError, TurnstoneError):
            await self._before_end()
            raise
        finally:
            self._on_events(is_over=True)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Drained(httpx2.AsyncByteStream):
    """Reads a stream to its end, if that comes soon, even after its reader has stopped.

    Only then can the connection be reused, which saves the next call a TLS handshake.
    """

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._chunks = aiter(stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            yield chunk

    async def aclose(self) -> None:
        size_bytes = 0
        try:
            with suppress(httpx2.TransportError, TurnstoneError, TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    async for chunk in self._chunks:
                        size_bytes += len(chunk)
                        if size_bytes > DRAIN_BYTES:
                            return
        finally:
            await self._stream.aclose()


def _whole(request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
    headers = {name: value for name in KEPT_HEADERS if (value := response.headers.get(name)) is not None}
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _expects_answer(request: httpx2.Request) -> bool:
    """Return whether a POST is a JSON-RPC request, or one that only needs to be accepted."""
    if _answered_in_events(request):
        return False
    sent = json.loads(request.content)
    return "id" in sent and "method" in sent


def _answered_in_events(request: httpx2.Request) -> bool:
    """Return whether a POST belongs to the SSE transport: the stream opened by a GET carries its answer."""
    return request.method == "POST" and EVENTS not in request.headers.get("accept", "")


def _is_rpc_error(body: bytes) -> bool:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict) and "jsonrpc" in parsed and isinstance(parsed.get("error"), dict)
