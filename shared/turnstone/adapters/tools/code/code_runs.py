"""Run a model's code: the port of a runner, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from turnstone.domain.tools.tool_runs import ProducedFile
    from turnstone.domain.values.cancellation import StopSignal

MAX_CHARACTERS = 1_000_000
CUT = "\n[... the middle is left out ...]\n"


@dataclass(frozen=True, slots=True)
class CodeRun:
    """The result of a piece of code.

    Attributes:
        exit_code: None if the code was ended, or its exit code is missing.
        note: a further message for the code's author.
    """

    status: Literal["completed", "error", "timed out"]
    stdout: str
    stderr: str
    exit_code: int | None = None
    files: tuple[ProducedFile, ...] = ()
    note: str = ""


class CodeRunner(Protocol):
    """Runs a model's code in isolation: a jail on this machine, or a service."""

    def check(self) -> None:
        """Return if code can be run. Raises ToolFailed with the reason otherwise."""

    def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
        """Return the result; failed code and a timeout are results, too.

        Raises:
            ToolFailed: the code was not run, or the call was cancelled.
        """


def shortened(text: str) -> str:
    """Return the beginning and the end of a text that is too long to store."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return text[:half] + CUT + text[-half:]
