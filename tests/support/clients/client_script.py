"""Runs a script of `scripts/` in a process of its own with one official client, unmodified, on its path."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from threading import Timer
from typing import Any, Self

from tests.support.server.servers import ROOT
from tests.support.starts.client_forks import start_script

VERSIONS = ("0.2.12", "0.2.23")
SCRIPTS = ROOT / "tests" / "support" / "clients" / "scripts"
TIMEOUT_S = 60.0

ScriptReport = dict[str, Any]


class ClientScript:
    """A running script, which reports its results in lines of JSON and may wait for a line from the test."""

    def __init__(self, version: str, name: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> None:
        self._version = version
        self._command = [sys.executable, str(path_of(name)), *arguments]
        clients = str(ROOT / ".clients" / version)
        inherited = [path for path in (os.environ.get("PYTHONPATH"),) if path]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join([clients, str(SCRIPTS), *inherited])}
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        self._complaints = tempfile.TemporaryFile("w+")
        self._process = start_script(self._version, self._command, self._environment, self._complaints)
        self._watchdog = Timer(self._timeout_s, self._process.kill)
        self._watchdog.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._watchdog.cancel()
        self._watchdog.join()
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._complaints.close()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def next_report(self) -> ScriptReport:
        """Return the next report of the script."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the script ended without a further report: {self._ending()}"
        report: ScriptReport = json.loads(line)
        return report

    def go_on(self) -> None:
        """Let a waiting script continue."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def whole_report(self) -> ScriptReport:
        """Return the remaining reports as one, once the script has ended well."""
        assert self._process.stdout is not None
        lines = list(self._process.stdout)
        assert self._process.wait() == 0, self._ending()
        return {name: value for line in lines for name, value in json.loads(line).items()}

    def _ending(self) -> str:
        exit_code = self._process.wait()
        self._complaints.seek(0)
        return f"exit code {exit_code}, {self._complaints.read()}"


def path_of(name: str) -> Path:
    """Return the path of a script, whichever folder it is in."""
    (path,) = SCRIPTS.rglob(f"{name}.py")
    return path


def run_script(version: str, name: str, *arguments: str) -> ScriptReport:
    """Return everything that a script reports."""
    with ClientScript(version, name, *arguments) as script:
        return script.whole_report()
