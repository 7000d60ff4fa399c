"""Scripts of clients as forks of a process that has imported the client: most of a short script's time is that import.

The prepared process receives the words, variables and streams of a script through a socket. A process between them
waits for the script, and writes its process id, then its exit status, into a pipe.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

from tests.support.starts.warm_starts import ROOT, are_warm, open_streams, status_of

CLIENTS = ROOT / ".clients"
# by folder; every other one has versions of the default
MODULES = {"openai": "openai", "letta": "letta_client", "letta-1": "letta_client"}
DEFAULT_MODULE = "llama_stack_client"
NUMBER = struct.Struct("i")
MOST_BYTES = 200_000  # of a request


def start_script(
    folder: str, command: Sequence[str], environment: Mapping[str, str], complaints: IO[str]
) -> subprocess.Popen[str] | ForkedScript:
    """Start a script with the client of a folder of `.clients`; its errors go to `complaints`.

    Within `cold_starts`, it is a new Python.
    """
    if are_warm():
        return ForkedScript(_prepared(folder, environment["PYTHONPATH"]), command[1:], environment, complaints)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=complaints, text=True)


class ForkedScript:
    """A running script; each method is that of `subprocess.Popen`."""

    def __init__(
        self, prepared: socket.socket, words: Sequence[str], environment: Mapping[str, str], complaints: IO[str]
    ) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self._states, theirs_states = os.pipe()
        given = (theirs_in, theirs_out, complaints.fileno(), theirs_states)
        request = json.dumps({"words": list(words), "environment": dict(environment)}).encode()
        socket.send_fds(prepared, [request], given)
        for number in (theirs_in, theirs_out, theirs_states):
            os.close(number)
        self.stdin: IO[str] | None = open(ours_in, "w")  # noqa: SIM115
        self.stdout: IO[str] | None = open(ours_out)  # noqa: SIM115
        self.returncode: int | None = None
        self.pid = self._next_number()

    def poll(self) -> int | None:
        if self.returncode is None:
            poll = select.poll()  # `select` takes no descriptor above 1,023
            poll.register(self._states, select.POLLIN)
            if poll.poll(0):
                self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._next_number()
            os.close(self._states)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _next_number(self) -> int:
        read = os.read(self._states, NUMBER.size)
        assert read, "the process that waits for the script has ended"
        number: int = NUMBER.unpack(read)[0]
        return number


@cache
def _prepared(folder: str, python_path: str) -> socket.socket:
    """Return the socket of a process that has imported the folder's client; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([python_path, str(ROOT)])}
        words = [sys.executable, "-m", __name__, str(theirs.fileno()), MODULES.get(folder, DEFAULT_MODULE)]
        process = subprocess.Popen(words, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def main(requests: socket.socket, module: str) -> None:
    """Start a script for each request, until the other end is closed."""
    import_module(module)
    gc.freeze()
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the processes between
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(request), descriptors)
        for number in descriptors:
            os.close(number)


def _watch(request: Mapping[str, object], descriptors: list[int]) -> NoReturn:
    """Start the script, and write its process id and exit status into the last descriptor."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, states = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(states)
        _become(**request, streams=streams)  # type: ignore[arg-type]
    for number in streams:
        os.close(number)
    os.write(states, NUMBER.pack(pid))
    exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        os.write(states, NUMBER.pack(exit_code))
    os._exit(0)


def _become(words: list[str], environment: dict[str, str], streams: list[int]) -> NoReturn:
    status = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        for target, number in enumerate(streams):
            os.dup2(number, target)
            os.close(number)
        open_streams()
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        status = status_of(lambda: runpy.run_path(words[0], run_name="__main__"))
    except BaseException:  # noqa: BLE001 - as a Python does before it ends
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
