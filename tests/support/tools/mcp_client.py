"""Connections to MCP servers on loopback, which an operator has to allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.tools.mcp.mcp import McpToolbox
from turnstone.adapters.tools.mcp.mcp_connections import McpConnections
from turnstone.adapters.tools.mcp.mcp_guarded import guarded_connections
from turnstone.adapters.tools.mcp.mcp_limits import DEFAULT_LIMITS, McpLimits
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.registry.registry import MCP, McpEndpoint, Toolgroup
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import text_of

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

ASKER = ToolAsker("acme")
TIMEOUT_S = 20.0


@contextmanager
def loopback_connections(*ports: int, limits: McpLimits = DEFAULT_LIMITS) -> Iterator[McpConnections]:
    connections = guarded_connections(Allowed.of([("127.0.0.1", port) for port in ports]), limits)
    try:
        yield connections
    finally:
        connections.close()


def toolbox(uri: str, connections: McpConnections) -> McpToolbox:
    endpoint = McpEndpoint(uri=uri)
    group = Toolgroup(identifier="group", provider_resource_id="group", provider_id=MCP, mcp_endpoint=endpoint)
    return McpToolbox(group, connections)


def asker_with(uri: str, headers: Mapping[str, Any], tenant: str = "acme") -> ToolAsker:
    return ToolAsker(tenant, ProviderData({"mcp_headers": {uri: headers}}))


def text_in_result(result: ToolResult) -> str:
    """Return the text of an answer, which is a list however short it is."""
    assert isinstance(result.content, tuple)
    return text_of(result.content)


def call(
    box: McpToolbox,
    name: str,
    /,
    asker: ToolAsker = ASKER,
    timeout_s: float = TIMEOUT_S,
    stop: StopSignal | None = None,
    key: str = "key",
    **arguments: Any,
) -> ToolResult:
    return box.invoke(
        ToolInvocation(
            call=ToolCall(call_id="c1", tool_name=name, arguments=arguments),
            arguments=arguments,
            idempotency_key=key,
            ref=None,
            asker=asker,
            timeout_s=timeout_s,
            stop=stop,
        )
    )
