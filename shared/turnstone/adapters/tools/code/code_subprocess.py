"""Run code on this machine, in a process that jails itself before it reads the code, see `jail`.

Guarantees, on Linux from 5.14 on, on x86-64 and 64-bit ARM, where users may create namespaces of their own: the
code reaches no network and no other process; sees Python, its packages and the system's libraries, and not even the
existence of other files; writes to one folder in memory; starts no programs; and all of it ends in time.
Where the kernel refuses any part of that, no code is run: on macOS and Windows, in most containers and in Lambda.
"""

from __future__ import annotations

import json
import logging
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import turnstone
from turnstone.adapters.tools.code.code_runs import CUT, MAX_CHARACTERS, CodeRun
from turnstone.adapters.tools.code.jail.visible import interpreter, module_paths, visible_paths
from turnstone.adapters.tools.code.produced_files import produced_file
from turnstone.domain.errors import ToolFailed

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

MACHINES = ("x86_64", "aarch64")
# limit of a stream before its code is ended: a write cannot be prevented, only the next one
MAX_STREAM_BYTES = 16 * 1024 * 1024
MAX_RESULT_BYTES = 9 * 1024 * 1024
KEPT_BYTES = 4 * MAX_CHARACTERS
CHECK_TIMEOUT_S = 10.0
FIRST_CODE = "bytearray(1_000_000)"  # shows that there is memory next to Python's own
END_TIMEOUT_S = 5.0
ENVIRONMENT = {
    "HOME": "/tmp/work",  # noqa: S108 # in the jail
    "TMPDIR": "/tmp",  # noqa: S108 # in the jail
    "LANG": "C.UTF-8",
    # a thread for each processor would take memory that the code does not have, without saving time
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
PACKAGE_PARENT = str(Path(turnstone.__file__).resolve().parents[1])
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from turnstone.adapters.tools.code.jail.entry import main; main(int(sys.argv[2]))"
)


log = logging.getLogger(__name__)


class JailedCode:
    """Runs each piece of code in a jail of its own."""

    def __init__(self, memory_mb: int, hidden: Sequence[Path] = ()) -> None:
        """Store the settings.

        Args:
            memory_mb: the memory limit of the code's process.
            hidden: folders that code must not see even if they are part of Python's or the system's own.
        """
        self._memory_bytes = memory_mb * 1024 * 1024
        self._hidden = [str(folder.resolve()) for folder in hidden]

    def check(self) -> None:
        """Return if this machine supports jails. Raises ToolFailed with the reason otherwise."""
        first = self.run(FIRST_CODE, CHECK_TIMEOUT_S, None)
        if first.status != "completed":
            raise ToolFailed(f"code can't be run on this server: {first.note or first.stderr or first.status}")

    def run(self, code: str, timeout_s: float, stop: StopSignal | None) -> CodeRun:
        """Return the result. The code has ended by then in any case, and nothing of it is left.

        Raises:
            ToolFailed: this machine cannot jail the code, or the call was cancelled.
        """
        if sys.platform != "linux" or os.uname().machine not in MACHINES:
            raise ToolFailed("code can't be run on this server: only Linux, on x86-64 or 64-bit ARM, can isolate it")
        limits = {"memory_bytes": self._memory_bytes, "seconds": math.ceil(timeout_s), "hidden": self._hidden}
        running = _Running({"code": code, "server": os.getpid(), **limits, **_python()})
        with ExitStack() as heeding:
            if stop is not None:
                heeding.enter_context(stop.heeded_by(running.end))
            running.watch(time.monotonic() + timeout_s)
        if stop is not None and stop.is_set:
            raise ToolFailed("the code was stopped, because the request was cancelled")
        return running.outcome()


def _python() -> dict[str, object]:
    return {
        "visible": visible_paths(),
        "modules": module_paths(),
        "interpreter": interpreter(),
        "prefix": sys.prefix,
    }


class _Running:
    """A running jail and its output: two streams, and a report at the end."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        result, result_end = os.pipe()
        self._streams = {name: _Stream(KEPT_BYTES) for name in ("stdout", "stderr")}
        self._streams["result"] = _Stream(MAX_RESULT_BYTES)
        self._is_late = False
        self._result: IO[bytes] = open(result, "rb", buffering=0)  # noqa: SIM115 # closed in `watch`
        with open(os.memfd_create("job"), "w+b") as stdin, open(result_end, "wb") as given:
            stdin.write(json.dumps(job).encode())
            stdin.seek(0)
            try:
                self._process = self._started(stdin, given.fileno())
            except OSError as failure:
                self._result.close()
                raise ToolFailed("code can't be run now: this server can't start a process") from failure

    def _started(self, stdin: IO[bytes], result_fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 # this Python, by its path
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", START, PACKAGE_PARENT, str(result_fd)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(result_fd,),
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )

    def end(self) -> None:
        """Kill all of its processes at once."""
        self._process.terminate()

    def watch(self, deadline: float) -> None:
        """Return after the end, by itself or at the deadline. Raises ToolFailed if the jail cannot be ended."""
        with self._process, self._result, selectors.DefaultSelector() as selector:
            opened = {"stdout": self._process.stdout, "stderr": self._process.stderr, "result": self._result}
            for name, file in opened.items():
                selector.register(cast("IO[bytes]", file), selectors.EVENT_READ, self._streams[name])
            while selector.get_map():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    if self._is_late:
                        self._process.kill()
                        raise ToolFailed("the code could not be ended")
                    self._is_late = True
                    deadline += END_TIMEOUT_S - left_s
                    self.end()
                for key, _ in selector.select(max(left_s, 0)):
                    piece = os.read(key.fd, 65_536)
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif key.data.add(piece) > MAX_STREAM_BYTES:
                        self.end()

    def outcome(self) -> CodeRun:
        """Return the result. Raises ToolFailed if the code was never run."""
        line, _, bodies = bytes(self._streams["result"].beginning).partition(b"\n")
        report = json.loads(line) if line else {}
        if "refused" in report:
            log.warning("code can't be shut in: %s", report["detail"])
            raise ToolFailed(f"code can't be run on this server, because it can't be isolated: {report['refused']}")
        stdout, stderr = self._streams["stdout"], self._streams["stderr"]
        if self._is_late:
            return CodeRun("timed out", stdout.text, stderr.text)
        if max(stdout.size, stderr.size) > MAX_STREAM_BYTES:
            return CodeRun("error", stdout.text, stderr.text, note="it was ended, because it wrote without end")
        if "exit_code" not in report:
            raise ToolFailed("the code's process ended before the code did")
        files, start = [], 0
        for name, size in report["files"]:
            files.append(produced_file(name, bodies[start : start + size]))
            start += size
        note = f"{report['left_out']} more files were left out: too many, or too large" if report["left_out"] else ""
        return _ended(report["exit_code"], CodeRun("completed", stdout.text, stderr.text, 0, tuple(files), note))


class _Stream:
    """The beginning and the end of an output, each limited in bytes."""

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self.beginning = bytearray()
        self._end = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> int:
        """Append output; return the total number of bytes."""
        self.size += len(piece)
        room = self._kept_bytes - len(self.beginning)
        self.beginning += piece[:room]
        self._end += piece[room:]
        del self._end[: -self._kept_bytes]
        return self.size

    @property
    def text(self) -> str:
        kept = len(self.beginning) + len(self._end)
        between = CUT.encode() if kept < self.size else b""
        return bytes(self.beginning + between + self._end).decode(errors="replace")


def _ended(exit_code: int, run: CodeRun) -> CodeRun:
    if exit_code >= 0:
        return replace(run, status="error" if exit_code else "completed", exit_code=exit_code)
    if -exit_code == signal.SIGXCPU:
        return replace(run, status="timed out", exit_code=None)
    note = f"it was ended by {_name_of(-exit_code)}"
    return replace(run, status="error", exit_code=None, note="\n".join(filter(None, (note, run.note))))


def _name_of(signal_number: int) -> str:
    """Return the signal's name; most real-time signals have none."""
    try:
        return signal.Signals(signal_number).name
    except ValueError:
        return f"signal {signal_number}"
