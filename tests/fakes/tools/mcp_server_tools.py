"""The tools of the test's MCP servers, with the outcomes that calls may meet. Loads the `mcp` package."""

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.fakes.tools.mcp_server import ONE_PIXEL


class Tools:
    """The tools, and a record of their calls."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self._seen: dict[str, list[Any]] = {"keys": [], "began": [], "cancelled": [], "ports": []}

    def add(self, a: int, b: int, ctx: Context[Any, Any]) -> str:
        """Add two numbers."""
        self._seen["keys"].append((ctx.request_context.meta or {}).get("turnstone/idempotencyKey"))
        return str(a + b)

    async def nothing(self, ctx: Context[Any, Any]) -> str:
        self._seen["ports"].append(ctx.request_context.request.client.port)
        return ""

    async def slow(self, seconds: float, name: str = "") -> str:
        self._seen["began"].append(name)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._seen["cancelled"].append(name)
            raise
        return f"slept {name}"

    def what_was_seen(self) -> str:
        return json.dumps(self._seen)

    def fails(self) -> str:
        raise ToolError("the moon is in the way")

    def image(self) -> Any:
        return ["a pixel", Image(data=base64.b64decode(ONE_PIXEL), format="png")]

    def parts(self) -> Any:
        notes = TextResourceContents(uri="file:///notes.txt", text="two", mime_type="text/plain")
        blob = base64.b64encode(b"%PDF-").decode()
        paper = BlobResourceContents(uri="file:///a/../b%20c.pdf", blob=blob, mime_type="application/pdf")
        return [
            TextContent(type="text", text="one"),
            AudioContent(type="audio", data=base64.b64encode(b"RIFF").decode(), mime_type="audio/wav"),
            EmbeddedResource(type="resource", resource=notes),
            EmbeddedResource(type="resource", resource=paper),
            ResourceLink(type="resource_link", name="report", uri="https://example.com/report"),
        ]

    def weather(self, city: str) -> dict[str, Any]:
        return {"city": city, "degrees": 21}

    def big(self, size: int) -> str:
        return "x" * size

    def header(self, name: str, ctx: Context[Any, Any]) -> str:
        headers: Mapping[str, str] = ctx.headers or {}
        return headers.get(name, "none")

    async def grow(self, name: str, ctx: Context[Any, Any]) -> str:
        self._server.add_tool(lambda: "grown", name=name, structured_output=False)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await ctx.notify_tools_changed()
        else:
            await ctx.session.send_tool_list_changed()
        return "grown"


def server_with_tools() -> MCPServer:
    server = MCPServer("test", log_level="CRITICAL")
    tools = Tools(server)
    functions = (
        tools.add,
        tools.nothing,
        tools.slow,
        tools.what_was_seen,
        tools.fails,
        tools.image,
        tools.parts,
        tools.big,
    )
    for tool in (*functions, tools.header, tools.grow):
        server.add_tool(tool, structured_output=False)
    server.add_tool(tools.weather, structured_output=True)
    server.add_tool(lambda: "odd", name="odd.name/with spaces", structured_output=False)
    return server
