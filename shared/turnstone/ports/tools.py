"""Toolgroups: list and run their tools. Tools of Python: run their functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.letta.python_runs import PythonCall, PythonOutcome
    from turnstone.domain.registry.registry import Toolgroup
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.domain.values.cancellation import StopSignal


class Toolbox(Protocol):
    """The tools of one toolgroup."""

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        """Return the tools, for this caller.

        Raises:
            ToolgroupUnavailable: the tools cannot be listed now.
        """

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Run the call. Raises ToolFailed, whose message is shown to the model."""


class PythonRunner(Protocol):
    """Runs functions of tools of Python, isolated from the server and from each other."""

    def run(self, call: PythonCall, tenant: str, timeout_s: float, stop: StopSignal | None) -> PythonOutcome:
        """Return the result; an error of the function and a timeout are results, too.

        Raises:
            ToolFailed: the function was not run, or the call was cancelled.
        """


class ToolKinds(Protocol):
    """Creates toolboxes: of builtin groups, and of registry entries."""

    def builtin(self) -> tuple[str, ...]:
        """Return the names of this server's builtin groups."""

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox; no request is sent before its tools are listed.

        Raises:
            InvalidRequest: names the invalid part of the definition.
            Unsupported: this server does not run such tools, with the reason.
        """

    def offered_as(self, group_id: str, name: str) -> str:
        """Return the name under which models are offered the tool of the group, which lists it as `name`."""

    def remote(self) -> Toolbox:
        """Return the toolbox of calls to the address in their agent's own definition (`options.remote_execution`)."""

    def python(self) -> PythonRunner | None:
        """Return the runner of tools of Python, None where they are off."""
