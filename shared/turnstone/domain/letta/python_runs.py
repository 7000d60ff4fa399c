"""Runs of tools of Python: a call, and its result as a model gets it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from turnstone.domain.letta.tools import CustomTool
from turnstone.domain.tools.tool_runs import ToolResult

MOST_OUTPUT = 10_000  # characters of each of the two streams
CUT = "\n[... the rest is left out ...]"
OFF = "tools of Python are off on this server; they are on where runs in [tools.python_tools] of its file names a place"


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A call of a function in a source.

    Attributes:
        environment: variables of the run's environment.
        agent_state: given as the argument of that name, None for a function without it.
        most_characters: of the text of the result.
    """

    source: str = field(repr=False)
    name: str
    arguments: Mapping[str, Any] = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    agent_state: Mapping[str, Any] | None = field(default=None, repr=False)
    most_characters: int = 6_000


@dataclass(frozen=True, slots=True)
class PythonOutcome:
    """The result of a call.

    Attributes:
        text: of the returned value, or of the error; at most as long as the call permits.
        length: of the whole text.
        stdout, stderr: the output of the function.
    """

    text: str
    length: int
    is_error: bool
    stdout: str = ""
    stderr: str = ""

    @property
    def shown(self) -> str:
        """The text, with a notice where it was cut."""
        if self.length <= len(self.text):
            return self.text
        return f"{self.text}\n[The function output was truncated to {len(self.text)} of {self.length} characters.]"

    @property
    def result(self) -> ToolResult:
        """The result for the model, with the printed lines for clients."""
        printed = {"stdout": printed_lines(self.stdout), "stderr": printed_lines(self.stderr)}
        return ToolResult(self.shown, {**({"error": True} if self.is_error else {}), **printed})


class SourceRun(NamedTuple):
    """A function to run that is not stored."""

    tool: CustomTool
    arguments: Mapping[str, Any]
    environment: Mapping[str, str]


class SourceResult(NamedTuple):
    """The result of such a run, and its time."""

    outcome: PythonOutcome
    at: datetime


def printed_lines(text: str) -> list[str]:
    """Return printed output as clients read it: one text, or none."""
    if not text:
        return []
    return [text if len(text) <= MOST_OUTPUT else text[:MOST_OUTPUT] + CUT]


def error_of(name: str, kind: str, message: str) -> str:
    """Return the text of an error that the function raised."""
    return (
        f"Error executing function {name}: {kind}: {message}" if message else f"Error executing function {name}: {kind}"
    )
