"""Code that a model wrote, run: what runs it, and what came of it."""

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
    """What came of a piece of code.

    Attributes:
        exit_code: None where it was ended, or where nobody told.
        note: what else to tell whoever wrote it.
    """

    status: Literal["completed", "error", "timed out"]
    stdout: str
    stderr: str
    exit_code: int | None = None
    files: tuple[ProducedFile, ...] = ()
    note: str = ""


class CodeRunner(Protocol):
    """Where code is run."""

    def check(self) -> None:
        """Return if code can be run. Raises ToolFailed, which tells why not."""

    def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
        """Return what came of it; that it failed, or took too long, is an answer.

        Raises:
            ToolFailed: it was not run, or nobody wants to know any more.
        """


def shortened(text: str) -> str:
    """Return a text as long as one that is kept may be: its beginning and its end."""
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    return text[:half] + CUT + text[-half:]
