"""Run the parts that are too slow for every run, one after the other, within an hour: `python -m tests.nightly --help`.

Parts whose cases are drawn share a new seed, which is printed first. Each part has a time limit: a longer one
is ended, and counts as failed. A failed part does not stop the others.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINUTE_S = 60


@dataclass(frozen=True)
class Part:
    """A target of the Makefile.

    Attributes:
        minutes: how long it may take.
        is_drawn: whether it takes a seed.
    """

    target: str
    minutes: float
    is_drawn: bool = False

    def command(self, seed: int) -> list[str]:
        return ["make", self.target, *([f"ARGS=--seed={seed}"] if self.is_drawn else [])]


@dataclass(frozen=True)
class Outcome:
    part: Part
    seconds: float
    status: int | None
    """None if it was ended because it took too long."""

    def __str__(self) -> str:
        outcome = {0: "passed", None: f"ended after {self.part.minutes:g} minutes"}.get(self.status, "FAILED")
        return f"{self.part.target:12} {self.seconds:7.0f} s  {outcome}"


PARTS = (
    Part("explore", 24, is_drawn=True),
    Part("guards", 14),
    Part("torture", 6, is_drawn=True),
    Part("attack", 5),
    Part("lost-power", 5, is_drawn=True),
    Part("build", 6),
)


def outcome_of(part: Part, command: Sequence[str]) -> Outcome:
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        status: int | None
        try:
            status = process.wait(part.minutes * MINUTE_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with whatever it has started
    return Outcome(part, time.monotonic() - began, status)


def run(parts: Sequence[Part], seed: int, report: Callable[[str], object]) -> int:
    """Run the parts; return the exit code, 0 if all passed."""
    report(f"seed {seed}: make nightly ARGS=--seed={seed} repeats the same cases")
    outcomes = []
    for part in parts:
        outcomes.append(outcome_of(part, part.command(seed)))
        report(str(outcomes[-1]))
    report("\n".join(["", *map(str, outcomes), f"{'together':12} {sum(each.seconds for each in outcomes):7.0f} s"]))
    return 0 if all(outcome.status == 0 for outcome in outcomes) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("--seed", type=int, help="of what is drawn (default: a new one)")
    parser.add_argument("--only", choices=[part.target for part in PARTS], help="this part")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    chosen = [part for part in PARTS if given.only in (None, part.target)]
    return run(chosen, seed, lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(main())
