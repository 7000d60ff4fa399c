"""Items of MCP servers in an output that are no calls: lists of tools, and requests to approve a call."""

from collections.abc import Iterator
from typing import Any

from turnstone.dialects.openai.responses.output.text_items import Event, OpenItem, Status
from turnstone.domain.responses.addresses import approval_id
from turnstone.domain.responses.hosted import HostedTool
from turnstone.domain.tools.inline_toolgroups import ListedServer, server_label
from turnstone.domain.tools.tools import ToolCall


class OpenToolList(OpenItem):
    """The tools of a server, which are listed before the response begins."""

    kind = "mcpl"

    def __init__(self, turn_id: str, index: int, listed: ListedServer) -> None:
        super().__init__(turn_id, index)
        self._listed = listed

    @property
    def item(self) -> dict[str, Any]:
        is_begun = self.status == "in_progress"
        tools = [] if is_begun else list(self._listed.tools)
        error = None if is_begun else self._listed.error
        listed = {"server_label": self._listed.label, "tools": tools, "error": error}
        return {"id": self.item_id, "type": "mcp_list_tools", **listed}

    def begun(self) -> Iterator[Event]:
        yield from super().begun()
        yield self._event("response.mcp_list_tools.in_progress", item_id=self.item_id)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        end = "completed" if self._listed.error is None else "failed"
        yield self._event(f"response.mcp_list_tools.{end}", item_id=self.item_id)
        yield from super().ended(status)


class OpenApproval(OpenItem):
    """The request to approve a call, with which the response ends; it is whole from its beginning."""

    kind = "mcpr"

    def __init__(self, turn_id: str, index: int, tool: HostedTool, call: ToolCall, arguments: str) -> None:
        super().__init__(turn_id, index)
        self._request_id = approval_id(turn_id, call.call_id)
        self._tool = tool
        self.text = arguments

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": self._request_id,
            "type": "mcp_approval_request",
            "server_label": server_label(self._tool.group),
            "name": self._tool.runs_as,
            "arguments": self.text,
        }
