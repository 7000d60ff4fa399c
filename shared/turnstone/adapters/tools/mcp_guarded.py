"""Connections to MCP servers that keep to the rules of every other fetch."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from turnstone.adapters.tools.mcp_connections import McpConnections
from turnstone.adapters.tools.mcp_limits import DEFAULT_LIMITS, McpLimits

if TYPE_CHECKING:
    import ssl

    import httpx2

    from turnstone.adapters.fetching.allowing import Allowed


def guarded_connections(allowed: Allowed, limits: McpLimits = DEFAULT_LIMITS) -> McpConnections:
    """Return connections to public servers over https, and to what is allowed."""

    @cache
    def certificates() -> ssl.SSLContext:
        import ssl

        return ssl.create_default_context()  # reads a file of all authorities, once for all connections

    def new_transport() -> httpx2.AsyncBaseTransport:
        from turnstone.adapters.fetching.guarded_httpx import GuardedTransport
        from turnstone.adapters.fetching.rules import system_resolver

        return GuardedTransport(allowed, system_resolver, certificates())

    return McpConnections(new_transport, limits)
