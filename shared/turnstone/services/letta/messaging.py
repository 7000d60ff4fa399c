"""Toolgroup `letta::core`: the tool by which an agent answers its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.base_tools import SEND, SENT
from turnstone.domain.tools.tool_runs import ToolResult

if TYPE_CHECKING:
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation
    from turnstone.domain.tools.tools import ToolDef


class MessagingToolbox:
    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the tools of the group."""
        return (SEND,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Accept the message: the loop takes it from the call. Raises ToolFailed for a call without one."""
        if not isinstance(invocation.arguments.get("message"), str):
            raise ToolFailed("message: must be a text")
        return ToolResult(SENT)
