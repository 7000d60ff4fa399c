"""A built function in a process of its own that takes connections."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.smoke.artefact import BuiltFunction
from tests.support.server.servers import HOST, SHOWN_LOG_CHARACTERS, START_TIMEOUT_S, wait_until


class FunctionProcess:
    """The process, in the folder of the artefact, during the `with` block; a failing test shows its log.

    Attributes:
        started_in_ms: milliseconds from the start of the process until its port accepted connections.
    """

    ended_by = signal.SIGTERM

    def __init__(self, function: BuiltFunction, port: int) -> None:
        self.started_in_ms = 0.0
        self._function = function
        self._port = port
        self._folder = tempfile.TemporaryDirectory(prefix="function-", ignore_cleanup_errors=True)
        self._log_path = Path(self._folder.name) / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def command(self) -> Sequence[os.PathLike[str] | str]:
        """Return the command that starts the function."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return its whole environment."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        began = time.perf_counter()
        try:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    self.command(), cwd=self._function.folder, env=self.environment(), stdout=log, stderr=log
                )
            wait_until(self._listens, START_TIMEOUT_S, "the function does not listen")
        except BaseException:
            self._end()
            raise
        self.started_in_ms = (time.perf_counter() - began) * 1_000
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end()

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the function ended: {self.log}"
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0

    def _end(self) -> None:
        if self._process is not None:
            self._process.send_signal(self.ended_by)
            self._process.wait(START_TIMEOUT_S)
        print(f"--- log of {self._function.name}\n{self.log[-SHOWN_LOG_CHARACTERS:]}")
        self._folder.cleanup()
