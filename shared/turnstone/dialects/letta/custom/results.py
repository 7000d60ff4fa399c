"""Results of runs of tools of Letta's API outside of conversations."""

from datetime import datetime
from typing import Literal

from turnstone.domain.letta.python_runs import SourceResult, printed_lines
from turnstone.domain.values.frozen import Frozen

NO_ID = "null"


class ToolRunResult(Frozen):
    """The result of a run of a tool outside of a conversation."""

    id: str
    date: datetime
    message_type: Literal["tool_return_message"] = "tool_return_message"
    tool_return: str
    status: Literal["success", "error"]
    tool_call_id: str
    stdout: tuple[str, ...]
    stderr: tuple[str, ...]


def run_result_of(result: SourceResult) -> ToolRunResult:
    """Return the result of a run as the API shows it."""
    outcome = result.outcome
    return ToolRunResult(
        id=NO_ID,
        date=result.at,
        tool_return=outcome.shown,
        status="error" if outcome.is_error else "success",
        tool_call_id=NO_ID,
        stdout=tuple(printed_lines(outcome.stdout)),
        stderr=tuple(printed_lines(outcome.stderr)),
    )
