"""Processes started from one that has imported their modules: a tenth of the processor time of a new Python.

The started process is a real one, with a number, streams and an end of its own. Its command line, and the environment
at `/proc/PID/environ`, are those of the process that it was forked from: tests that look for them start servers cold.
Variables that only a starting Python reads have no effect, except the two about its standard streams.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import runpy
import signal
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, process, reduction
from pathlib import Path
from typing import Any, Protocol, TextIO

from tests.support.starts.warm_workers import fork_workers

ROOT = Path(__file__).resolve().parents[3]
FORKS = get_context("forkserver")
PRELOADED = "tests.support.starts.warm_modules"
FORKS.set_forkserver_preload([PRELOADED])
UNWRITTEN = 120  # the exit status of a Python that can't write the rest of its standard output

Streams = Sequence[int | None]  # the descriptors of standard input, output and errors; None is closed

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

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        streams: Streams,
        folder: Path = ROOT,
        *,
        is_at_terminal: bool = False,
    ) -> None:
        """Start it in the folder; `is_at_terminal` makes its standard input the terminal that controls it."""
        given = [None if each is None else _Descriptor(each) for each in streams]
        become = (list(words), dict(environment), str(folder), given, is_at_terminal)
        self._process = FORKS.Process(target=_become, args=become)
        self._process.start()
        # else the start of another process, in another thread, may take the exit code that this one waits for
        process._children.discard(self._process)  # type: ignore[attr-defined]

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
    """Within the block, processes start from the prepared one, or each as a new Python, as a user's do."""
    global _are_warm
    before, _are_warm = _are_warm, are_warm
    try:
        yield
    finally:
        _are_warm = before


def are_warm() -> bool:
    """Return whether processes start from the prepared one."""
    return _are_warm


def take_terminal() -> None:
    """Make standard input the terminal that controls this process."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class _Descriptor:
    """A descriptor of the test's process, which arrives in the started one as one of its own."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(duplicate: Any) -> _Descriptor:
    return _Descriptor(duplicate.detach())


def _become(
    words: list[str], environment: dict[str, str], folder: str, streams: list[_Descriptor | None], is_at_terminal: bool
) -> None:
    assert PRELOADED in sys.modules, "the modules were not imported before the fork"
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, stream in enumerate(streams):
        if stream is None:
            os.close(target)
        else:
            os.dup2(stream.number, target)
    for number in {stream.number for stream in streams if stream is not None}:
        os.close(number)
    if is_at_terminal:
        take_terminal()
    open_streams([stream is not None for stream in streams])
    sys.argv = words
    fork_workers()
    os._exit(status_of(lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True)))


def open_streams(are_open: Sequence[bool] = (True, True, True)) -> None:
    """Open `sys.stdin`, `sys.stdout` and `sys.stderr` as a starting Python does."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    assert sys.stdout, "the prepared process has none"
    usual = sys.stdout.encoding, sys.stdout.errors
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (name, mode) in enumerate((("stdin", "rb"), ("stdout", "wb"), ("stderr", "wb"))):
        opened: TextIO | None = None
        if are_open[number]:
            binary = open(number, mode, buffering=0 if is_unbuffered and number else -1, closefd=False)  # noqa: SIM115
            opened = io.TextIOWrapper(
                binary,
                encoding or usual[0],
                "backslashreplace" if name == "stderr" else errors or usual[1],
                newline="\n",
                line_buffering=name == "stderr" or os.isatty(number),
                write_through=is_unbuffered and number > 0,
            )
        setattr(sys, name, opened)
        setattr(sys, f"__{name}__", opened)


def status_of(run: Callable[[], object]) -> int:
    """Run it, end as a Python does (threads, exit functions, then the rest of the output), and return the exit status.

    Another exception is printed, with the status 1, by the `multiprocessing` that called.
    """
    status = 0
    try:
        run()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            if stream is sys.stdout:
                traceback.print_exc()
            status = UNWRITTEN
    return status
