"""Ctrl-C between requests, so that none is left without a response: a bank holds a file, or nothing of it."""

import signal
import sys
from types import TracebackType
from typing import Any, Self


class DeferredInterrupts:
    """Defers the first Ctrl-C within the block until `check`; the second one raises KeyboardInterrupt at once."""

    def __init__(self) -> None:
        self._is_due = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._is_due:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        if self._is_due:
            raise KeyboardInterrupt
        self._is_due = True
        print("\nturnstone: stopping after the current request; Ctrl-C again stops at once", file=sys.stderr)
