"""Processes that start from one which has imported what a server needs: a tenth of the processor time of a new one.

Run as a module it is that one process: it forks for each request on its standard input, and collects its children.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[3]
CAN_WARM = hasattr(os, "pidfd_open")
LONGEST_MESSAGE = 1 << 17
NO_TIMEOUT_MS = None


class WarmProcess:
    """A process that the warm one has forked: what `subprocess.Popen` offers, as far as tests of servers use it."""

    def __init__(self, source: WarmStarts, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._source = source
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self.returncode if self._has_ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _has_ended(self, timeout_s: float | None) -> bool:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            if waiting.poll(None if timeout_s is None else timeout_s * 1_000):
                self.returncode = self._source.collected(self.pid)
                os.close(self._descriptor)
        return self.returncode is not None


class WarmStarts:
    """The process that starts others, itself started when it is first needed, while the `with` block lasts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None and self._channel is not None:
            self._channel.close()
            self._process.wait()

    def start(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> WarmProcess:
        """Run `python -m` with these words in an environment, from the root of the repository.

        Args:
            words: the name of the module, then its arguments.
            environment: all variables of the process.
            log: the file to which its output is appended.
        """
        request = {"words": list(words), "environment": dict(environment), "log": str(log)}
        return WarmProcess(self, self._answer_to(request))

    def collected(self, pid: int) -> int:
        """Return the exit code of a process that has ended, once: its number is free then."""
        return self._answer_to({"ended": pid})

    def _answer_to(self, request: Mapping[str, Any]) -> int:
        with self._lock:
            if self._channel is None:
                self._begin()
            assert self._channel is not None
            self._channel.send(json.dumps(request).encode())
            answer = self._channel.recv(LONGEST_MESSAGE)
        assert answer, "the process that starts others has ended"
        return int(answer)

    def _begin(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for end in (self._channel, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LONGEST_MESSAGE)
            command = [sys.executable, "-m", "tests.support.server.warm_starts", str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)


_in_use: WarmStarts | None = None


@contextmanager
def warm_starts() -> Iterator[None]:
    """Within the block, processes of servers may start warm."""
    global _in_use
    if not CAN_WARM:
        yield
        return
    with WarmStarts() as _in_use:
        yield
    _in_use = None


@contextmanager
def cold_starts() -> Iterator[None]:
    """Within the block, they start as on a user's machine."""
    global _in_use
    before, _in_use = _in_use, None
    yield
    _in_use = before


def warm() -> WarmStarts | None:
    """Return where to start a process, None if it has to start cold."""
    return _in_use


def modules_of_a_server() -> list[str]:
    """Return the names of the modules that are imported when a server serves; a child starts one to see."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        from functions.local.server import build_local_app
        from turnstone.bootstrap.places.local import LocalServer
        from turnstone.settings.local_settings import LocalSettings

        with TemporaryDirectory() as folder:
            settings = LocalSettings(data_dir=Path(folder))
            build_local_app(settings, LocalServer(settings))
            import turnstone.functions.local.server  # noqa: F401 - its name for `python -m turnstone`
        with open(writing, "w") as names:
            names.write("\n".join(sys.modules))
        os._exit(0)
    os.close(writing)
    with open(reading) as names:
        found = names.read().split()
    os.waitpid(pid, 0)
    return found


def main(descriptor: int) -> None:
    """Fork for each request until the tests close their end, and return only in a child, which runs a module."""
    for name in modules_of_a_server():
        if name.startswith(("turnstone", "uvicorn", "starlette", "pydantic", "uvloop", "httptools")):
            __import__(name)
    gc.freeze()
    channel = socket.socket(fileno=descriptor)
    while message := channel.recv(LONGEST_MESSAGE):
        request = json.loads(message)
        if (ended := request.get("ended")) is not None:
            _, status = os.waitpid(ended, 0)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        assert threading.active_count() == 1, "a child would lack the other threads"
        if not (pid := os.fork()):
            channel.close()
            become(**request)
            return
        channel.send(str(pid).encode())
    os._exit(0)


def become(words: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    ...
