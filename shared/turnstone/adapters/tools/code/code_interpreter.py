"""Toolgroup `builtin::code_interpreter`: run a model's Python code and return its output.

Source: the form of the result, from the tool of that name in Llama Stack of September 2024.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

from turnstone.adapters.tools.code.call_limit import CallLimit, held_slot
from turnstone.adapters.tools.code.code_runs import CodeRun, CodeRunner, shortened
from turnstone.adapters.tools.code.produced_files import named_apart
from turnstone.domain.errors import ToolFailed, ToolgroupUnavailable
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter

GROUP = "builtin::code_interpreter"
MAX_CODE_CHARACTERS = 200_000
CODE_INTERPRETER = ToolDef(
    name="code_interpreter",
    description=(
        "Run Python code and read what it prints. Each call starts anew, without network. "
        "Files written to the current folder are kept and given to the user."
    ),
    parameters=(
        ToolParameter(
            name="code",
            parameter_type="string",
            description="The Python code to run. Print whatever you want to see.",
        ),
    ),
)


class CodeInterpreter:
    """Runs each call's code separately, within its timeout and the limit of concurrent calls."""

    def __init__(self, runner: CodeRunner, timeout_s: float, limit: CallLimit | None = None) -> None:
        """Take the code runner.

        Args:
            timeout_s: the maximum time of a piece of code.
            limit: the limit of concurrent calls, None where their memory is not this machine's.
        """
        self._runner = runner
        self._timeout_s = timeout_s
        self._limit = limit
        self._lock = Lock()
        self._is_checked = False

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 # the same for every caller
        """Return the tool. Raises ToolgroupUnavailable where code cannot be run safely."""
        with self._lock:
            if not self._is_checked:
                try:
                    self._runner.check()
                except ToolFailed as failure:
                    raise ToolgroupUnavailable(GROUP, str(failure)) from failure
                self._is_checked = True
        return (CODE_INTERPRETER,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the code's output, its end, and its files. Raises ToolFailed."""
        if invocation.call.tool_name != CODE_INTERPRETER.name:
            raise ToolFailed(f"there is no tool {invocation.call.tool_name!r} here")
        code = invocation.arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            raise ToolFailed("code: send the Python code to run, as a string")
        if len(code) > MAX_CODE_CHARACTERS:
            raise ToolFailed(f"code: send at most {MAX_CODE_CHARACTERS} characters")
        tenant, stop = invocation.asker.tenant, invocation.stop
        with held_slot(self._limit, tenant, invocation.timeout_s, self._timeout_s, stop) as timeout_s:
            run = self._runner.run(code, timeout_s, stop)
        run = replace(run, files=named_apart(run.files))
        metadata = {"status": run.status, "exit_code": run.exit_code}
        return ToolResult(_report(run, timeout_s), metadata, run.files)


def _report(run: CodeRun, timeout_s: float) -> str:
    lines: list[str] = [run.status]
    for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if text:
            lines += [f"[{name}]", shortened(text).removesuffix("\n"), f"[/{name}]"]
    if run.status == "timed out":
        lines.append(f"it was ended: it may take {timeout_s:g} seconds, also of all processors together")
    if run.exit_code:
        lines.append(f"exit code: {run.exit_code}")
    if run.note:
        lines.append(run.note)
    if run.files:
        lines.append("files: " + ", ".join(file.name for file in run.files))
    return "\n".join(lines)
