"""Code in jails: its runs, and its remains on this machine afterwards."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

from tests.support.server.servers import wait_until
from turnstone.adapters.tools.code import code_subprocess
from turnstone.adapters.tools.code.code_runs import CodeRun
from turnstone.adapters.tools.code.code_subprocess import JailedCode
from turnstone.domain.errors import ToolFailed
from turnstone.domain.values.cancellation import StopSignal

MEMORY_MB = 192
MARK = "TURNSTONE_TEST_MARK"
QUICKLY_S = 10.0  # of a machine that has much else to do
JAILS_OWN = {"/tmp", "/tmp/.outside-of-the-jail", "/tmp/work", "/.outside-of-the-jail"}


class Jails:
    """Runs code in jails whose processes can be distinguished from all others."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self._mounts = mounted()
        self._tmp_work = os.path.exists("/tmp/work")

    def run(self, code: str, timeout_s: float = 30, stop: StopSignal | None = None) -> CodeRun:
        """Return the result, once every process of the run is gone."""
        run = JailedCode(MEMORY_MB).run(code, timeout_s, stop)
        self.expect_nothing_left()
        return run

    def expect_nothing_left(self) -> None:
        # the kernel removes a killed process from its table with a delay
        wait_until(lambda: not self.running(), QUICKLY_S, "not all of the code's processes ended")
        assert not (mounted() - self._mounts) & JAILS_OWN
        assert os.path.exists("/tmp/work") == self._tmp_work

    def running(self) -> list[int]:
        """Return the processes of these jails, by their command lines."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                is_ours = entry.isdecimal() and f"{MARK}={self.mark}".encode() in _environment(entry)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if is_ours:
                found.append(int(entry))
        return found


def mounted() -> set[str]:
    return {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def _environment(process_id: str) -> bytes:
    return Path("/proc", process_id, "environ").read_bytes()


@pytest.fixture(scope="module")
def can_jail() -> None:
    try:
        JailedCode(MEMORY_MB).check()
    except ToolFailed as failure:
        pytest.skip(str(failure))


@pytest.fixture
def jails(can_jail: None, monkeypatch: pytest.MonkeyPatch) -> Jails:
    mark = secrets.token_hex(16)
    monkeypatch.setitem(code_subprocess.ENVIRONMENT, MARK, mark)
    return Jails(mark)


def seconds_since(start: float) -> float:
    return time.monotonic() - start
