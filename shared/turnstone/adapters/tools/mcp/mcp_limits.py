"""How much is asked of MCP servers, how long they are waited for, and how many connections are kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class McpLimits:
    """The bounds that no server can push.

    Attributes:
        connect_s: how long a connection and a list of tools may take.
        listed_s: how long a list of tools is taken for current.
        idle_s: how long a connection is kept that nobody uses.
        kept: how many connections are kept at most.
        tools, pages: how many of them a server may list.
        answer_bytes: how large an answer may be; over SSE alone the `mcp` package takes 1 MiB at most.
    """

    connect_s: float = 10.0
    listed_s: float = 60.0
    idle_s: float = 120.0
    kept: int = 32
    tools: int = 500
    pages: int = 50
    answer_bytes: int = 8 * 1024 * 1024


DEFAULT_LIMITS = McpLimits()
