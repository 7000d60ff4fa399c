"""One connection to an MCP server: opened, used and closed in one task, as anyio's cancel scopes require."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeVar

import httpx2
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, CallToolResult, Implementation, Tool, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from turnstone import VERSION
from turnstone.adapters.tools.mcp.mcp_limits import McpLimits
from turnstone.adapters.tools.mcp.mcp_peer import McpPeer
from turnstone.adapters.tools.mcp.mcp_tools import McpListing, listing_of
from turnstone.adapters.tools.mcp.mcp_transport import BROKEN, AnsweringTransport
from turnstone.adapters.tools.mcp.mcp_trouble import McpTrouble

Way = Literal["streamable", "sse"]
Answer = TypeVar("Answer")
IDEMPOTENCY_KEY = "turnstone/idempotencyKey"
CLOSE_S = 3.0
MAX_MESSAGE_CHARS = 2_000
TOO_LARGE = "it sent an event that is too large"
# at lower levels these log addresses with their queries, and request bodies
for _name, _level in (("mcp", logging.CRITICAL), ("httpx2", logging.WARNING), ("httpcore2", logging.WARNING)):
    logging.getLogger(_name).setLevel(_level)


class McpConnection:
    """Lists and calls the tools of a server.

    Retired, which `is_open` shows, when it breaks, and when an answer is no longer awaited: a late answer would
    disturb other calls.

    Attributes:
        was_used: the server has answered before.
    """

    def __init__(self, peer: McpPeer, way: Way, transport: httpx2.AsyncBaseTransport, limits: McpLimits) -> None:
        """Start to connect, in the running loop."""
        self._peer = peer
        self._limits = limits
        self._wire = AnsweringTransport(transport, limits.answer_bytes, self._events_changed)
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Client] = self._loop.create_future()
        self._end = asyncio.Event()
        self._requests: set[asyncio.Task[Any]] = set()
        self._lists = asyncio.Lock()
        self._listing: McpListing | None = None
        self._listed_at = 0.0
        self._users = 0
        self._idle: asyncio.TimerHandle | None = None
        self._is_retired = False
        self.way = way
        self.was_used = False
        self.task = asyncio.create_task(self._keep())
        self.task.add_done_callback(self._ended)

    @property
    def is_open(self) -> bool:
        return not (self._is_retired or self.task.done())

    @property
    def refuses_posts(self) -> bool:
        return self._wire.refuses_posts

    async def opened(self) -> None:
        """Return when the connection is ready. Raises McpTrouble."""
        await asyncio.shield(self._ready)

    async def listing(self) -> McpListing:
        """Return the tools, from a recent listing if there is one. Raises McpTrouble."""
        async with self._lists:
            listed = self._listing
            if listed is None or self._loop.time() - self._listed_at > self._limits.listed_s:
                self._listed_at = self._loop.time()
                listed = listing_of(await self._send(self._list()), self._peer.shown_uri)
                self._listing = listed
        return listed

    async def call(self, name: str, arguments: Mapping[str, Any], idempotency_key: str) -> CallToolResult:
        """Run a tool by the name in the listing. Raises McpTrouble."""
        names = (self._listing or await self.listing()).names
        if name not in names:
            raise McpTrouble(f"it no longer lists a tool {name!r}", is_unsent=True)
        client = await self._ready
        meta: Any = {IDEMPOTENCY_KEY: idempotency_key}
        sent_before = self._wire.calls_sent
        try:
            return await self._send(client.call_tool(names[name], dict(arguments), meta=meta))
        except McpTrouble as trouble:
            if self._wire.calls_sent > sent_before:  # this call, or one beside it
                raise
            raise McpTrouble(str(trouble), is_unsent=True) from trouble

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Within the block, keep it open."""
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            yield
        finally:
            self._users -= 1
            self._rest()

    def retire(self) -> None:
        """Retire the connection: close it after its last call, and accept no further ones."""
        self._is_retired = True
        self._rest()

    def _rest(self) -> None:
        if self._users or self._requests:
            return
        if self._is_retired:
            self._end.set()
        elif not self.task.done():
            self._idle = self._loop.call_later(self._limits.idle_s, self.retire)

    async def _send(self, question: Coroutine[Any, Any, Answer]) -> Answer:
        work = asyncio.create_task(question)
        self._requests.add(work)
        work.add_done_callback(self._answered)
        try:
            await asyncio.wait((work, self.task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not work.done():
                self.retire()
                work.cancel()  # the package notifies the server, without a wait
        if work.done() and not work.cancelled():
            error = work.exception()
            if error is None:
                self.was_used = True
                return work.result()
            raise self._trouble_of(error) from error
        raise self._trouble_of(self.task.exception() if self.task.done() and not self.task.cancelled() else None)

    def _answered(self, work: asyncio.Task[Any]) -> None:
        self._requests.discard(work)
        if not work.cancelled():
            work.exception()  # passed to the waiting calls, if any
        self._rest()

    async def _list(self) -> list[Tool]:
        client, tools, cursor = await self._ready, list[Tool](), None
        for _ in range(self._limits.pages):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            if len(tools) > self._limits.tools:
                raise McpTrouble(f"it lists more than {self._limits.tools} tools")
            cursor = page.next_cursor
            if not cursor:
                return tools
        raise McpTrouble(f"its list of tools does not end within {self._limits.pages} pages")

    # ---- the task that owns the session

    async def _keep(self) -> None:
        async with asyncio.timeout(self._limits.connect_s) as deadline:
            async with self._client() as client:
                deadline.reschedule(None)
                self._ready.set_result(client)
                receiving = asyncio.create_task(self._receive_changes(client))
                receiving.add_done_callback(_forgive)
                try:
                    await self._end.wait()
                finally:
                    receiving.cancel()
                deadline.reschedule(self._loop.time() + CLOSE_S)

    def _client(self) -> AbstractAsyncContextManager[Client]:
        streams: AbstractAsyncContextManager[Any]
        if self.way == "sse":
            streams = sse_client(self._peer.uri, httpx_client_factory=self._http_client)
        else:
            streams = self._streamable()
        return Client(
            streams,
            mode="legacy" if self.way == "sse" else "auto",
            client_info=Implementation(name="turnstone", version=VERSION),
            message_handler=self._received,
            cache=None,
        )

    @asynccontextmanager
    async def _streamable(self) -> AsyncIterator[Any]:
        most = self._limits.answer_bytes
        async with (
            self._http() as http,
            streamable_http_client(self._peer.uri, http_client=http, max_sse_event_size=most) as streams,
        ):
            yield streams

    def _http(self) -> httpx2.AsyncClient:
        # a stream of events may be silent for long; each call has a deadline of its own
        timeout = httpx2.Timeout(self._limits.connect_s, read=None, pool=None)
        return httpx2.AsyncClient(
            transport=self._wire, headers=list(self._peer.headers), timeout=timeout, trust_env=False
        )

    def _http_client(
        self,
        headers: dict[str, str] | None = None,  # noqa: ARG002 - none are requested, and the timeouts are ours
        timeout: httpx2.Timeout | None = None,  # noqa: ARG002
        auth: httpx2.Auth | None = None,  # noqa: ARG002
    ) -> httpx2.AsyncClient:
        return self._http()

    async def _receive_changes(self, client: Client) -> None:
        tools = client.server_capabilities.tools
        if tools and tools.list_changed and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._listing = None

    async def _received(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._listing = None

    def _events_changed(self, *, is_over: bool) -> None:
        """Over SSE, answers to all calls come in one stream, and a failed request gets no answer."""
        if self.way == "sse":
            self.retire()
            if is_over:
                self._end.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._idle is not None:
            self._idle.cancel()
        if not self._ready.done():
            self._ready.set_exception(self._why_not_begun(error))
            self._ready.exception()  # passed to the waiting calls, if any

    def _trouble_of(self, error: BaseException | None) -> McpTrouble:
        """Return the failure as a message for people."""
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, McpTrouble):
            return error
        if isinstance(error, httpx2.SSEError):
            return McpTrouble(TOO_LARGE)
        if error is None or _is_closed(error):
            if self.way == "sse" and self._wire.trouble is not None:
                return self._wire.trouble
            return McpTrouble(TOO_LARGE if "exceeded" in str(error) else BROKEN)
        if isinstance(error, MCPError) and error.code != PARSE_ERROR:
            recognised = self._wire.trouble_in(error.data)
            server_text = " ".join(error.message.split())[:MAX_MESSAGE_CHARS]  # on one line: logs show it, too
            return recognised or McpTrouble(f"it says: {server_text}", is_answer=True)
        return McpTrouble("its answer does not follow MCP")

    def _why_not_begun(self, error: BaseException | None) -> McpTrouble:
        if isinstance(error, TimeoutError):
            return McpTrouble(f"it did not begin to speak MCP within {self._limits.connect_s:g} s")
        opening = self._wire.trouble_opening if self.way == "sse" else None  # other servers may refuse a GET
        return self._wire.trouble or opening or self._trouble_of(error)


def _is_closed(error: BaseException) -> bool:
    """Return whether the error stands for a closed connection; servers use the same code for errors of all kinds."""
    if not isinstance(error, MCPError) or error.code != CONNECTION_CLOSED:
        return False
    return error.message.startswith(("Connection closed", "SSE stream"))


def _forgive(task: asyncio.Task[None]) -> None:
    """Ignore the missing stream of change notifications: the listing expires after a while anyway."""
    if not task.cancelled():
        task.exception()
