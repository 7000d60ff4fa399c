"""Commands of `turnstone` as processes, in every way in which `subprocess` runs them, but from the prepared process.

Within `cold_starts`, each is a new Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import IO

from tests.support.starts.warm_starts import ROOT, Process, Streams, WarmProcess, are_warm, take_terminal

TIMEOUT_S = 60.0
WORDS = ("turnstone",)


def start(
    *arguments: object,
    environment: Mapping[str, str],
    streams: Streams,
    folder: Path = ROOT,
    is_at_terminal: bool = False,
) -> Process:
    """Start `turnstone` with these arguments; its streams are these descriptors, which stay the caller's to close."""
    words = [*WORDS, *map(str, arguments)]
    if are_warm():
        return WarmProcess(words, environment, streams, folder, is_at_terminal=is_at_terminal)

    def prepare() -> None:
        for number, stream in enumerate(streams):
            if stream is None:
                os.close(number)
        if is_at_terminal:
            take_terminal()

    first, second, third = (subprocess.DEVNULL if each is None else each for each in streams)
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        env=dict(environment),
        cwd=folder,
        stdin=first,
        stdout=second,
        stderr=third,
        preexec_fn=prepare if is_at_terminal or None in streams else None,
    )


class Command:
    """A running command whose output and errors are kept; each method is that of `subprocess.Popen`."""

    def __init__(
        self,
        *arguments: object,
        environment: Mapping[str, str],
        folder: Path = ROOT,
        stdin: int | None = subprocess.DEVNULL,
        typed: str | bytes | None = None,
        stdout: int | None = subprocess.PIPE,
    ) -> None:
        """Start it.

        Args:
            arguments: of `turnstone`.
            environment: all of its variables.
            folder: where it runs.
            stdin: a descriptor, None for a closed one, `DEVNULL`.
            typed: the content of a pipe that is standard input instead.
            stdout: a descriptor, None for a closed one, `PIPE` to keep the output.
        """
        self._kept = (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
        self._writer: Thread | None = None
        with ExitStack() as stack:
            if typed is not None:
                stdin = self._typing(typed.encode() if isinstance(typed, str) else typed)
                stack.callback(os.close, stdin)
            elif stdin == subprocess.DEVNULL:
                stdin = os.open(os.devnull, os.O_RDONLY)
                stack.callback(os.close, stdin)
            output = self._kept[0].fileno() if stdout == subprocess.PIPE else stdout
            streams = (stdin, output, self._kept[1].fileno())
            self.process = start(*arguments, environment=environment, streams=streams, folder=folder)

    def finished(self, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Return exit status, output and errors, once it has ended. Raises TimeoutExpired after killing it."""
        output, errors = self._kept
        with output, errors:
            try:
                status = self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
            finally:
                if self._writer is not None:
                    self._writer.join()
            return subprocess.CompletedProcess([], status, _text_of(output), _text_of(errors))

    def _typing(self, text: bytes) -> int:
        """Return the end of a pipe to read the text from."""
        source, target = os.pipe()

        def write() -> None:
            with suppress(BrokenPipeError), open(target, "wb") as pipe:
                pipe.write(text)

        self._writer = Thread(target=write)
        self._writer.start()
        return source


def _text_of(kept: IO[bytes]) -> str:
    kept.seek(0)
    return kept.read().decode(errors="replace")


def run_command(
    *arguments: object,
    environment: Mapping[str, str],
    folder: Path = ROOT,
    stdin: int | None = subprocess.DEVNULL,
    typed: str | bytes | None = None,
    stdout: int | None = subprocess.PIPE,
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Return exit status, output and errors of `turnstone` with these arguments; see `Command`."""
    started = Command(*arguments, environment=environment, folder=folder, stdin=stdin, typed=typed, stdout=stdout)
    return started.finished(timeout_s)
