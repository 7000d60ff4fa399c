"""Toolbox of a registered MCP server."""

from __future__ import annotations

from turnstone.adapters.fetching.targets import to_target
from turnstone.adapters.tools.mcp.mcp_answers import result_of
from turnstone.adapters.tools.mcp.mcp_connections import McpConnections
from turnstone.adapters.tools.mcp.mcp_peer import MCP_HEADERS, McpPeer, peer_of
from turnstone.adapters.tools.mcp.mcp_trouble import McpTrouble
from turnstone.domain.errors import (
    AddressForbidden,
    CredentialsMissing,
    CredentialsRefused,
    FetchRefused,
    InvalidRequest,
    ToolFailed,
    ToolgroupUnavailable,
)
from turnstone.domain.registry.registry import Toolgroup
from turnstone.domain.tools.inline_toolgroups import INLINE
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef


class McpToolbox:
    """Tools of the server in a toolgroup of the provider `model-context-protocol`."""

    def __init__(self, group: Toolgroup, connections: McpConnections, *, is_configured: bool = False) -> None:
        """Create the toolbox without connecting.

        Args:
            is_configured: whether the group is from the operator's own file, whose server may be a private one.

        Raises:
            InvalidRequest: the group has no address, or one that may not be fetched.
        """
        if group.mcp_endpoint is None:
            raise InvalidRequest(
                f"mcp_endpoint.uri: toolgroup {group.identifier!r} requires it", ("mcp_endpoint", "uri")
            )
        try:
            to_target(group.mcp_endpoint.uri)
        except FetchRefused as refused:
            raise InvalidRequest(f"mcp_endpoint.uri: {refused}", ("mcp_endpoint", "uri")) from refused
        self._name = group.identifier
        self._uri = group.mcp_endpoint.uri
        self._connections = connections
        self._is_configured = is_configured

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        """Return the tools that the server lists for the caller. Raises InvalidRequest also for unusable headers."""
        peer = peer_of(self._uri, asker, is_configured=self._is_configured)
        try:
            return self._connections.listing(peer).tools
        except McpTrouble as trouble:
            raise self._unavailable(peer, trouble) from trouble

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        peer = self._peer(invocation)
        try:
            return result_of(self._connections.call(peer, invocation))
        except McpTrouble as trouble:
            if trouble.refused is not None:
                refusal = self._unavailable(peer, trouble)
                raise ToolFailed(str(refusal), refusal) from trouble
            is_certain = trouble.is_unsent or trouble.is_answer
            unknown = "" if is_certain else "; whether the tool ran is unknown"
            message = peer.redacted(str(trouble))
            raise ToolFailed(f"the MCP server of {self._name!r}: {message}{unknown}") from trouble
        except ToolFailed as failed:  # as the server's own message
            raise ToolFailed(peer.redacted(str(failed))) from failed

    def _unavailable(self, peer: McpPeer, trouble: McpTrouble) -> ToolgroupUnavailable:
        why = f"its MCP server {peer.shown_uri}: {peer.redacted(str(trouble))}"
        if trouble.is_forbidden:
            return AddressForbidden(self._name, why)
        match trouble.refused:
            case None:
                return ToolgroupUnavailable(self._name, why)
            case 403:
                return CredentialsRefused(self._name, f"{why}: it does not let this caller use them{_sent(peer)}")
            case _:
                return CredentialsMissing(self._name, f"{why}: it requires {self._how(peer)}")

    def _peer(self, invocation: ToolInvocation) -> McpPeer:
        try:
            return peer_of(self._uri, invocation.asker, is_configured=self._is_configured)
        except InvalidRequest as refused:
            raise ToolFailed(str(refused)) from refused

    def _how(self, peer: McpPeer) -> str:
        """Return the remedy for a server that requires credentials."""
        which = "other credentials than those sent" if peer.headers else "credentials"
        if self._name.startswith(INLINE):
            return f"{which}; send them with the tool, in headers or authorization"
        return f"{which}; send them with the request, in the header X-LlamaStack-Provider-Data: {_example(peer)}"


def _example(peer: McpPeer) -> str:
    return f'{{"{MCP_HEADERS}": {{"{peer.shown_uri}": {{"Authorization": "Bearer ..."}}}}}}'


def _sent(peer: McpPeer) -> str:
    return " with the credentials that were sent" if peer.headers else f"; it may with credentials in {MCP_HEADERS}"
