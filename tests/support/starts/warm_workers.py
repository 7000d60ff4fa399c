"""Workers of a server that are forks of its first process, as that one is of a process with its modules.

Servers that tests start as new Pythons have workers that are new Pythons, too.
"""

from __future__ import annotations

import logging
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import NoReturn

STREAMS = (0, 1, 2)
STOPPING = {signal.SIGTERM}


def fork_workers() -> None:
    """Let the server of this process, which runs no thread beside it, fork its workers."""
    processes = import_module("turnstone.functions.local.processes")
    processes.subprocess = SimpleNamespace(Popen=ForkedWorker)  # type: ignore[attr-defined]


class ForkedWorker:
    """A worker process; each method is that of `subprocess.Popen`."""

    def __init__(self, command: Sequence[str], pass_fds: Iterable[int]) -> None:
        _, _, _, module, *arguments = command
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # else both processes would write the pending output
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        self.pid = os.fork()
        if self.pid == 0:
            _become(module, arguments, {*STREAMS, *pass_fds})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._exit_code: int | None = None

    def wait(self) -> int:
        if self._exit_code is None:
            self._exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._exit_code

    def send_signal(self, number: int) -> None:
        if self._exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(module: str, arguments: list[str], kept: set[int]) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with suppress(OSError):  # the list's own is closed
                os.close(number)
    logging.getLogger().handlers.clear()
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException:  # noqa: BLE001 - as a Python does before it ends
        traceback.print_exc()
    os._exit(1)
