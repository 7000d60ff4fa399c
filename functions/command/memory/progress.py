"""Progress of an addition on standard error: a bar at a terminal, else a line for each file."""

import shutil
from types import TracebackType
from typing import Self, TextIO

from ..chat.screen import visible

BAR_CHARACTERS = 24
STEPS = 2  # of a file: it is sent, and it is inserted
CLEAR = "\r\x1b[K"


class AdditionProgress:
    """Shows the files that are sent and inserted, within the block."""

    def __init__(self, err: TextIO, total: int, *, is_silent: bool) -> None:
        self._err = err
        self._total = total
        self._is_silent = is_silent
        self._is_bar = not is_silent and err.isatty()
        self._steps = self._ended = 0
        self._problems: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._is_bar:
            print(CLEAR, end="", file=self._err, flush=True)

    def at(self, path: str, activity: str, problem: str | None = None) -> None:
        """Show the current file, and once the problem that delays it."""
        if problem is not None and not self._is_silent and (path, problem) not in self._problems:
            self._problems.add((path, problem))
            start = CLEAR if self._is_bar else ""
            print(f"{start}{visible(path)} is tried again: {visible(problem)}", file=self._err, flush=True)
        if self._is_bar:
            done = BAR_CHARACTERS * self._steps // (STEPS * self._total)
            bar = "█" * done + "░" * (BAR_CHARACTERS - done)
            text = f"{bar} {self._ended}/{self._total} {activity} {visible(path)}"
            print(CLEAR + text[: shutil.get_terminal_size().columns - 1], end="", file=self._err, flush=True)

    def sent(self) -> None:
        """Count a file as sent."""
        self._steps += 1

    def ended(self, path: str, result: str) -> None:
        """Count a file as ended, with its result."""
        self._ended += 1
        self._steps = max(self._steps, self._ended) + 1
        if not self._is_bar and not self._is_silent:
            print(f"{self._ended}/{self._total} {result} {visible(path)}", file=self._err, flush=True)
