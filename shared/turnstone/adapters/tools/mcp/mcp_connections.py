"""MCP connections for threads: all run in one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotInTime
from contextlib import AbstractContextManager, nullcontext
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from turnstone.adapters.tools.mcp.mcp_limits import DEFAULT_LIMITS, McpLimits
from turnstone.adapters.tools.mcp.mcp_trouble import McpTrouble

if TYPE_CHECKING:
    import httpx2
    from mcp_types import CallToolResult

    from turnstone.adapters.tools.mcp.mcp_peer import McpPeer
    from turnstone.adapters.tools.mcp.mcp_pool import McpPool
    from turnstone.adapters.tools.mcp.mcp_tools import McpListing
    from turnstone.domain.tools.tool_runs import ToolInvocation
    from turnstone.domain.values.cancellation import StopSignal

Answer = TypeVar("Answer")
CLOSE_S = 4.0
GRACE_S = 1.0
STOPPED = "it was stopped before it answered"


class McpConnections:
    """Lists and calls the tools of servers over pooled connections.

    The MCP packages load slowly: they are imported, and the thread is started, for the first call.
    """

    def __init__(
        self, new_transport: Callable[[McpPeer], httpx2.AsyncBaseTransport], limits: McpLimits = DEFAULT_LIMITS
    ) -> None:
        """Store the settings.

        Args:
            new_transport: creates the HTTP transport of a connection to a peer; raises where the peer is not
                allowed.
        """
        self._new_transport = new_transport
        self._limits = limits
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pool: McpPool | None = None

    def listing(self, peer: McpPeer) -> McpListing:
        """Return the server's tools. Raises McpTrouble."""
        loop, pool = self._started()
        return self._wait(loop, pool.listing(peer), self._limits.connect_s, None)

    def call(self, peer: McpPeer, invocation: ToolInvocation) -> CallToolResult:
        """Return a tool's answer. Raises McpTrouble: no answer in time, or the call was cancelled."""
        loop, pool = self._started()
        call = pool.call(peer, invocation.call.tool_name, invocation.arguments, invocation.idempotency_key)
        return self._wait(loop, call, invocation.timeout_s, invocation.stop)

    def count(self) -> int:
        """Return the number of pooled connections."""
        pool = self._pool
        return 0 if pool is None else pool.count()

    def close(self) -> None:
        """Close all connections and end the thread; a later call starts it again."""
        with self._lock:
            loop, thread, pool = self._loop, self._thread, self._pool
            self._loop = self._thread = self._pool = None
        if loop is None or thread is None or pool is None:
            return
        atexit.unregister(self.close)
        closing = asyncio.run_coroutine_threadsafe(pool.close(), loop)
        try:
            closing.result(CLOSE_S)
        except NotInTime:
            closing.cancel()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> tuple[asyncio.AbstractEventLoop, McpPool]:
        with self._lock:
            if self._loop is None or self._pool is None:
                from turnstone.adapters.tools.mcp.mcp_pool import McpPool

                self._loop, self._pool = asyncio.new_event_loop(), McpPool(self._new_transport, self._limits)
                self._thread = Thread(target=_run, args=(self._loop,), name="mcp", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            return self._loop, self._pool

    def _wait(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Answer],
        timeout_s: float,
        stop: StopSignal | None,
    ) -> Answer:
        if stop is not None and stop.is_set:  # the loop could finish before the future is registered
            work.close()
            raise McpTrouble(STOPPED, is_unsent=True)
        future = asyncio.run_coroutine_threadsafe(_within(timeout_s, work), loop)
        heeding: AbstractContextManager[None] = nullcontext() if stop is None else stop.heeded_by(_once(future.cancel))
        try:
            with heeding:
                return future.result(timeout_s + GRACE_S)
        except CancelledError:
            raise McpTrouble(STOPPED) from None
        except NotInTime:  # the loop is blocked, or ended
            future.cancel()
            raise McpTrouble(_too_late(timeout_s)) from None


async def _within(timeout_s: float, work: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError:
        raise McpTrouble(_too_late(timeout_s)) from None


def _too_late(timeout_s: float) -> str:
    return f"it did not answer within {timeout_s:g} s"


def _once(cancel: Callable[[], bool]) -> Callable[[], None]:
    def act() -> None:
        cancel()

    return act


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then finish all of its tasks."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
