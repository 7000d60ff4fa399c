"""Limits of requests to MCP servers: sizes, timeouts and connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Limits that no server can change.

    Attributes:
        connect_s: the timeout for a connection and for a list of tools.
        listed_s: how long a list of tools stays current.
        idle_s: how long an idle connection is kept.
        kept: the maximum number of connections.
        tools, pages: how many of each a server may list.
        answer_bytes: the size limit of an answer; over SSE alone the `mcp` package accepts 1 MiB at most.
    """

    connect_s: float = 10.0
    listed_s: float = 60.0
    idle_s: float = 120.0
    kept: int = 32
    tools: int = 500
    pages: int = 50
    answer_bytes: int = 8 * 1024 * 1024


DEFAULT_LIMITS = McpLimits()
