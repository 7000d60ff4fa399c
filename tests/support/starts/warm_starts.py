"""Servers started from a process that has imported what a server needs: a tenth of the processor time of a new Python.

The started process is a real one, with a number, a log and an end of its own. Its command line, and the environment at
`/proc/PID/environ`, are those of the process that it was forked from: tests that look for them start servers cold.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[3]
FORKS = get_context("forkserver")
PRELOADED = "tests.support.starts.warm_modules"
FORKS.set_forkserver_preload([PRELOADED])

_are_warm = False


class Process(Protocol):
    """What a test does with a process that it started."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def kill(self) -> None: ...


class WarmProcess:
    """A process that runs `python -m` with these words; each method is that of `subprocess.Popen`."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it from the root of the repository, with its output appended to the log."""
        self._process = FORKS.Process(target=_become, args=(list(words), dict(environment), str(log)))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def starts(*, are_warm: bool) -> Iterator[None]:
    """Within the block, servers start from the prepared process, or each as a new Python, as a user's do."""
    global _are_warm
    before, _are_warm = _are_warm, are_warm
    try:
        yield
    finally:
        _are_warm = before


def are_warm() -> bool:
    """Return whether servers start from the prepared process."""
    return _are_warm


def _become(words: list[str], environment: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    os.close(out)
    assert PRELOADED in sys.modules, "the modules were not imported before the fork"
    sys.argv = words
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # a forked process calls none by itself
