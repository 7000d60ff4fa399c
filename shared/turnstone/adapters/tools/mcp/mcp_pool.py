"""Pool of MCP connections, inside their event loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp_types import CallToolResult

from turnstone.adapters.tools.mcp.mcp_connection import McpConnection, Way
from turnstone.adapters.tools.mcp.mcp_limits import McpLimits
from turnstone.adapters.tools.mcp.mcp_peer import McpPeer
from turnstone.adapters.tools.mcp.mcp_tools import McpListing
from turnstone.adapters.tools.mcp.mcp_trouble import McpTrouble

MAX_REMEMBERED = 1_024


class McpPool:
    """One connection per peer, created for its first call; the least recently used are closed first."""

    def __init__(self, new_transport: Callable[[McpPeer], httpx2.AsyncBaseTransport], limits: McpLimits) -> None:
        self._new_transport = new_transport
        self._limits = limits
        self._kept: OrderedDict[McpPeer, McpConnection] = OrderedDict()
        self._speaks_sse: OrderedDict[str, None] = OrderedDict()
        self._all: set[McpConnection] = set()

    async def listing(self, peer: McpPeer) -> McpListing:
        """Return the server's tools. Raises McpTrouble."""
        async with self._opened(peer) as connection:
            had_answered = connection.was_used
            try:
                return await connection.listing()
            except McpTrouble:
                connection.retire()
                if not had_answered:
                    raise
        async with self._opened(peer) as another:
            return await another.listing()

    async def call(
        self, peer: McpPeer, name: str, arguments: Mapping[str, Any], idempotency_key: str
    ) -> CallToolResult:
        """Return the tool's answer; repeats a call only if it certainly was not sent. Raises McpTrouble."""
        async with self._opened(peer) as connection:
            had_answered = connection.was_used
            try:
                return await connection.call(name, arguments, idempotency_key)
            except McpTrouble as trouble:
                if not (trouble.is_unsent and had_answered):
                    raise
                connection.retire()
        async with self._opened(peer) as another:
            return await another.call(name, arguments, idempotency_key)

    def count(self) -> int:
        """Return the number of pooled connections, without retired ones."""
        return len(self._kept)

    async def close(self) -> None:
        """Close all connections; returns when they are closed, or after a short timeout."""
        tasks = [connection.task for connection in self._all]
        for connection in tuple(self._all):
            connection.retire()
        if tasks:
            await asyncio.wait(tasks)

    @asynccontextmanager
    async def _opened(self, peer: McpPeer) -> AsyncIterator[McpConnection]:
        while True:
            connection = self._connection(peer)
            with connection.in_use():
                if await self._try_open(connection, peer.uri):
                    yield connection
                    return

    async def _try_open(self, connection: McpConnection, uri: str) -> bool:
        """Wait until the connection is ready; return False to try another transport. Raises McpTrouble."""
        try:
            await connection.opened()
        except McpTrouble:
            connection.retire()
            if connection.way == "sse":
                self._speaks_sse.pop(uri, None)
                raise
            if not connection.refuses_posts:
                raise
            self._remember_sse(uri)
            return False
        return True

    def _connection(self, peer: McpPeer) -> McpConnection:
        connection = self._kept.get(peer)
        if connection is None or not connection.is_open:
            is_sse = peer.uri in self._speaks_sse or urlsplit(peer.uri).path.endswith("/sse")
            way: Way = "sse" if is_sse else "streamable"
            connection = McpConnection(peer, way, self._new_transport(peer), self._limits)
            self._kept[peer] = connection
            self._all.add(connection)
            connection.task.add_done_callback(lambda _: self._forget(peer, connection))
        self._kept.move_to_end(peer)
        while len(self._kept) > self._limits.kept:
            _, oldest = self._kept.popitem(last=False)
            oldest.retire()
        return connection

    def _forget(self, peer: McpPeer, connection: McpConnection) -> None:
        self._all.discard(connection)
        if self._kept.get(peer) is connection:
            del self._kept[peer]

    def _remember_sse(self, uri: str) -> None:
        self._speaks_sse[uri] = None
        if len(self._speaks_sse) > MAX_REMEMBERED:
            self._speaks_sse.popitem(last=False)
