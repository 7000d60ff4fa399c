"""The parts of a night have their time, report it, and don't keep each other from running.

Covers: tests/nightly, tests/conftest
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_configure
from tests.nightly import MINUTE_S, PARTS, ROOT, Part, run

MAKEFILE = (ROOT / "Makefile").read_text()
MARKER = "nightly"


@dataclass(frozen=True)
class Shell(Part):
    """A part that is a line of the shell instead."""

    def command(self, seed: int) -> list[str]:
        return ["sh", "-c", self.target.replace("SEED", str(seed))]


def test_a_night_takes_an_hour_at_most_and_each_part_is_a_target_of_make() -> None:
    assert sum(part.minutes for part in PARTS) <= 60
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert {part.target for part in PARTS} <= targets
    assert re.search(rf"^explore:.*\n(?:.*\\\n)*.*-m {MARKER}\b", MAKEFILE, re.MULTILINE)
    assert re.search(r"^nightly:.*\n\t.*-m tests\.nightly", MAKEFILE, re.MULTILINE)


def test_a_part_that_fails_or_hangs_keeps_no_other_from_running(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    parts = [Shell("exit 3", 1), Shell("sleep 60 & sleep 60", 0.2 / MINUTE_S), Shell("echo seed is SEED", 1)]
    began = time.monotonic()
    assert run(parts, 42, lines.append) == 1
    assert time.monotonic() - began < 30
    assert "seed 42" in lines[0]
    assert [line.split(" s  ")[1] for line in lines[1:4]] == ["FAILED", "ended after 0.00333333 minutes", "passed"]
    assert "together" in lines[-1]
    assert capfd.readouterr().out == "seed is 42\n"


def test_a_night_without_failures_passes() -> None:
    assert run([Shell("true", 1)], 1, lambda line: None) == 0


def test_drawn_parts_receive_the_seed() -> None:
    drawn = {part.target for part in PARTS if part.is_drawn}
    assert drawn == {"explore", "torture", "lost-power"}
    assert Part("explore", 1, is_drawn=True).command(5) == ["make", "explore", "ARGS=--seed=5"]
    assert Part("guards", 1).command(5) == ["make", "guards"]


FAILING = """
import pytest

@pytest.mark.nightly
@pytest.mark.parametrize("number", range(4))
def test_drawn(fresh_seed, number):
    assert fresh_seed < 0
"""
SEED_LINE = re.compile(r"^seed (\d+): --seed=\1 repeats the same cases$", re.MULTILINE)


def seeds_printed(folder: Path, *arguments: str) -> list[str]:
    """Return the seeds that a run of failing tests prints."""
    file = folder / "test_drawn.py"
    file.write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *arguments, str(file)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return SEED_LINE.findall(ran.stdout)


def test_a_seed_is_printed_first_and_with_each_failure_and_is_the_same_in_all_processes(tmp_path: Path) -> None:
    printed = seeds_printed(tmp_path, "-n", "2", "-m", MARKER)
    assert len(printed) == 5
    assert len(set(printed)) == 1


@pytest.mark.nightly
def test_a_seed_can_be_given(tmp_path: Path) -> None:
    assert seeds_printed(tmp_path, "-n", "0", "-m", MARKER, "--seed=7") == ["7"] * 5


def test_a_given_seed_is_kept() -> None:
    given: Any = SimpleNamespace(option=SimpleNamespace(seed=7))
    pytest_configure(given)
    assert given.option.seed == 7


def test_a_seed_is_new_in_each_run() -> None:
    runs: list[Any] = [SimpleNamespace(option=SimpleNamespace(seed=None)) for _ in range(2)]
    for config in runs:
        pytest_configure(config)
    assert runs[0].option.seed != runs[1].option.seed
