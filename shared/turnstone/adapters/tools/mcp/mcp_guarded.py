"""MCP connections with the rules of every other fetch."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from turnstone.adapters.tools.mcp.mcp_connections import McpConnections
from turnstone.adapters.tools.mcp.mcp_limits import DEFAULT_LIMITS, McpLimits

if TYPE_CHECKING:
    import ssl

    import httpx2

    from turnstone.adapters.fetching.allowing import Allowed
    from turnstone.adapters.tools.mcp.mcp_peer import McpPeer


def guarded_connections(allowed: Allowed, limits: McpLimits = DEFAULT_LIMITS) -> McpConnections:
    """Return connections to public servers over https, to allowed hosts, and to servers of the operator's file.

    The file permits only the host and port of its own address, and only for its own toolgroup: neither a redirect to
    another host nor a tenant's toolgroup of the same address is permitted.
    """

    @cache
    def certificates() -> ssl.SSLContext:
        import ssl

        return ssl.create_default_context()  # reads a file of all authorities, once for all connections

    def new_transport(peer: McpPeer) -> httpx2.AsyncBaseTransport:
        from turnstone.adapters.fetching.guarded_httpx import GuardedTransport
        from turnstone.adapters.fetching.rules import system_resolver

        reachable = allowed.with_url(peer.uri) if peer.is_configured else allowed
        return GuardedTransport(reachable, system_resolver, certificates())

    return McpConnections(new_transport, limits)
