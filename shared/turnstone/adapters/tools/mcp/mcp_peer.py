"""An MCP server's address with the headers that a caller passes to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from turnstone.adapters.outgoing.quoting import REDACTED
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.provider_data import is_sendable
from turnstone.domain.tools.tool_runs import ToolAsker

MCP_HEADERS = "mcp_headers"
MAX_HEADERS = 32
MAX_HEADER_CHARS = 16_384
SHORTEST_SECRET = 8
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
# the protocol's own headers, or those that would let a caller change a request's framing
NOT_THE_CALLERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)


@dataclass(frozen=True, slots=True)
class McpPeer:
    """A server as one caller sees it: only callers with the same values share a connection.

    Attributes:
        is_configured: whether the operator's own file names the address, which may then be private.
    """

    tenant: str
    uri: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    is_configured: bool = False

    @property
    def shown_uri(self) -> str:
        return shown(self.uri)

    def redacted(self, text: str) -> str:
        """Return the server's text without values of headers, or words of them."""
        secrets = {part for _, value in self.headers for part in (value, *value.split())}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, REDACTED) if len(secret) >= SHORTEST_SECRET else text
        return text


def peer_of(uri: str, asker: ToolAsker, *, is_configured: bool) -> McpPeer:
    """Return the caller's peer. Raises InvalidRequest, which repeats no value of a header."""
    headers = _headers_for(uri, asker.provider_data.mapping(MCP_HEADERS))
    return McpPeer(asker.tenant, uri, headers, is_configured)


def shown(uri: str) -> str:
    """Return the address without possible secrets: credentials, query and fragment."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _headers_for(uri: str, by_uri: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    headers: dict[str, str] = {}
    for named, values in by_uri.items():
        if _address(named) != _address(uri):
            continue
        if not isinstance(values, dict) or len(values) > MAX_HEADERS:
            _refuse(f"the headers of a server must be an object of at most {MAX_HEADERS} strings")
        for name, value in values.items():
            headers[_name(name)] = _value(name, value)
    return tuple(sorted(headers.items()))


def _address(uri: str) -> tuple[str, str, str]:
    try:
        parts = urlsplit(uri)
    except ValueError:  # not a valid address of any server
        return (uri, "", "")
    return parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/")


def _name(name: str) -> str:
    if not HEADER_NAME.fullmatch(name):
        _refuse("a header's name is too long or not valid in HTTP")
    if name.lower() in NOT_THE_CALLERS:
        _refuse(f"the header {name!r} can't be set by callers; leave it out")
    return name.lower()


def _value(name: str, value: Any) -> str:
    if not isinstance(value, str) or not is_sendable(value) or len(value) > MAX_HEADER_CHARS:
        _refuse(f"the header {name!r} must be a string that is valid in HTTP")
    return str(value).strip()


def _refuse(why: str) -> None:
    raise InvalidRequest(f"{MCP_HEADERS}: {why}", (MCP_HEADERS,))
