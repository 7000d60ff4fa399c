"""Runs of tools of Python by a runner of code: its program, and the result in its output."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from turnstone.adapters.tools.code.call_limit import CallLimit, held_slot
from turnstone.domain.letta.python_runs import PythonCall, PythonOutcome, error_of

if TYPE_CHECKING:
    from turnstone.adapters.tools.code.code_runs import CodeRun, CodeRunner
    from turnstone.domain.values.cancellation import StopSignal

PROGRAM = Path(__file__).with_name("python_program.py")


class PythonCalls:
    """Runs each call separately, within its timeout and the limit of concurrent calls."""

    def __init__(self, runner: CodeRunner, timeout_s: float, limit: CallLimit | None = None) -> None:
        """Take the code runner.

        Args:
            timeout_s: the maximum time of a call.
            limit: the limit of concurrent calls, None where their memory is not this machine's.
        """
        self._runner = runner
        self._timeout_s = timeout_s
        self._limit = limit
        self._program = PROGRAM.read_text(encoding="utf-8")

    def run(self, call: PythonCall, tenant: str, timeout_s: float, stop: StopSignal | None) -> PythonOutcome:
        """Return the result; an error of the function and a timeout are results, too. Raises ToolFailed."""
        marker = secrets.token_hex(32)
        with held_slot(self._limit, tenant, timeout_s, self._timeout_s, stop) as most_s:
            run = self._runner.run(self._code(call, marker), most_s, stop)
        return outcome_of(run, call, marker, most_s)

    def _code(self, call: PythonCall, marker: str) -> str:
        job = {
            "source": call.source,
            "name": call.name,
            "arguments": dict(call.arguments),
            "environment": dict(call.environment),
            "state": call.agent_state,
            "most": call.most_characters,
        }
        return f"{self._program}\n\nrun_call({json.dumps(job)!r}, {marker!r})\n"


def outcome_of(run: CodeRun, call: PythonCall, marker: str, timeout_s: float) -> PythonOutcome:
    """Return the result of the call in the output of its run."""
    stdout, _, rest = run.stdout.partition(f"\n{marker}")
    report = _report(rest.partition("\n")[0], call.most_characters)
    if report is not None:
        text, length, is_error = report
        if is_error:
            shown = error_of(call.name, *text.partition(": ")[::2])
            return PythonOutcome(
                shown, length + len(shown) - len(text), is_error=True, stdout=stdout, stderr=run.stderr
            )
        return PythonOutcome(text, length, is_error=False, stdout=stdout, stderr=run.stderr)
    if run.status == "timed out":
        shown = error_of(call.name, "TimeoutError", f"it may take {timeout_s:g} seconds")
    else:
        shown = error_of(call.name, "RuntimeError", run.note or "it ended without a result")
    return PythonOutcome(shown, len(shown), is_error=True, stdout=stdout, stderr=run.stderr)


def _report(line: str, most: int) -> tuple[str, int, bool] | None:
    """Return the text of the result, its length, and whether it is an error; None for any other line.

    The function can find the marker, and write such a line itself.
    """
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match report:
        case {"text": str(text), "length": int(length), "error": bool(is_error)}:
            return text[:most].encode(errors="replace").decode(), length, is_error
    return None
