"""Toolgroups: what lists and runs their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.registry.registry import Toolgroup
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
    from turnstone.domain.tools.tools import ToolDef


class Toolbox(Protocol):
    """The tools of one toolgroup."""

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        """Return the tools there are, for this asker.

        Raises:
            ToolgroupUnavailable: whoever has them can't be asked now.
        """

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Run the call. Raises ToolFailed, whose message is shown to the model."""


class ToolKinds(Protocol):
    """Makes toolboxes: of the groups that come with the server, and of what was registered."""

    def builtin(self) -> tuple[str, ...]:
        """Return the names of the groups that come with this server."""

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox; nothing outside is asked before its tools are.

        Raises:
            InvalidRequest: names what of the definition is wrong.
            Unsupported: this server does not run such tools, and why.
        """

    def remote(self) -> Toolbox:
        """Return what runs calls where their agent's own definition says (`options.remote_execution`)."""
