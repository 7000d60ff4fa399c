"""A command as a process of its own, at a terminal or at none."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.support.server.servers import ROOT, server_environment
from tests.support.starts.commands import run_command, start

TIMEOUT_S = 30.0
POLL_S = 0.01
READ_BYTES = 4_096
RETURN = re.compile(r"turnstone chat --session ([\w-]+/[\w-]+)")
CTRL_C, CTRL_D = "\x03", "\x04"


def chat_environment(url: str, **more: str) -> dict[str, str]:
    """Return the environment of a chat with the server there, at a terminal without colours."""
    path = os.pathsep.join([str(ROOT / "shared"), str(ROOT)])
    return {**server_environment({"url": url}), "TERM": "dumb", "PYTHONPATH": path, **more}


def chatted(
    url: str, *arguments: str | Path, typed: str | bytes = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Return the result of a chat without a terminal."""
    return run_command("chat", *arguments, environment=chat_environment(url, **environment), typed=typed)


class Terminal:
    """A command at a terminal, by default a chat, while the `with` block lasts.

    Attributes:
        shown: everything it wrote so far.
    """

    def __init__(
        self,
        url: str,
        *arguments: str | Path,
        command: str = "chat",
        errors_to: Path | None = None,
        output_to: Path | None = None,
        **environment: str,
    ) -> None:
        """Prepare the command; its output and errors go to the terminal, unless a file for them is given."""
        self._arguments = (command, *arguments)
        self._files = {1: output_to, 2: errors_to}
        self._environment = chat_environment(url, **environment)
        self._read_up_to = 0
        self.shown = ""

    def __enter__(self) -> Self:
        self._terminal, inner = pty.openpty()
        opened = {number: os.open(path, os.O_WRONLY | os.O_CREAT) for number, path in self._files.items() if path}
        streams = [opened.get(number, inner) for number in range(3)]
        self._process = start(*self._arguments, environment=self._environment, streams=streams, is_at_terminal=True)
        for descriptor in (inner, *opened.values()):
            os.close(descriptor)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._terminal)
        print(f"--- the terminal\n{self.shown}")

    def expect(self, text: str) -> str:
        """Return the output since the last call, up to this text; read until it comes."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self.shown.find(text, self._read_up_to)) < 0:
            assert self._read(deadline), f"it ended without {text!r}: {self.shown[self._read_up_to :]!r}"
        before = self.shown[self._read_up_to : found]
        self._read_up_to = found + len(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C once the chat waits for keys.

        Python notices one that comes between the prompt and the waiting at the next key only.
        """
        status = Path(f"/proc/{self._process.pid}/stat")
        deadline = time.monotonic() + TIMEOUT_S
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, f"it never waited: {self.shown[self._read_up_to :]!r}"
            time.sleep(POLL_S)
        self.type(CTRL_C)

    def enter_line(self, line: str) -> None:
        """Type a line at the prompt."""
        self.expect("> ")
        self.type(f"{line}\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> int:
        """Return the exit status, once it has ended."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read(deadline):
            pass
        return self._process.wait(TIMEOUT_S)

    def _read(self, deadline: float) -> bool:
        """Wait for output and read it; return whether there may be more."""
        left_s = deadline - time.monotonic()
        assert left_s > 0, f"nothing more came after {self.shown[self._read_up_to :]!r}"
        if is_readable(self._terminal, left_s):
            try:
                read = os.read(self._terminal, READ_BYTES)
            except OSError:  # so Linux reports the end of the last writer
                return False
            self.shown += read.decode(errors="replace").replace("\r\n", "\n")
            return bool(read)
        return True


def is_readable(descriptor: int, within_s: float) -> bool:
    """Wait until there is something to read. A descriptor may have any number, which `select` does not take."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(1_000 * within_s))
