"""Change the code in many small ways and see whether a test notices: `python -m tests.mutants [--sample 150]`.

Files, changes and tests are those that pyproject.toml names for mutmut, which skips decorated functions. A sample
of the mutants is taken by a seed; each runs against the tests that reach its lines, in a process of its own.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutmut.configuration import config

from tests.mutants.mutant import Mutant, all_mutants, named
from tests.mutants.reach import Reach, measured
from tests.mutants.trial import SECONDS_PER_TEST, is_killed, preload

FEW = 5  # mostly enough, and collected sooner than all


def main() -> None:
    arguments = _arguments()
    preload()
    candidates = [named(text) for text in arguments.mutant] or all_mutants()
    chosen = candidates if arguments.mutant else random.Random(arguments.seed).sample(candidates, arguments.sample)
    with tempfile.TemporaryDirectory() as folder:
        selection = config().pytest_add_cli_args_test_selection
        reach = None if arguments.tests else measured(selection, Path(folder))
    if reach and reach.failed:
        print("fail without any mutant, and are left out:", *reach.failed, sep="\n  ")
    print(f"{len(chosen)} of {len(candidates)} mutants, seed {arguments.seed}", flush=True)
    survivors = [mutant for mutant in chosen if not _killed(mutant, reach, arguments)]
    _report(chosen, survivors)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--budget", type=float, default=25, help="seconds of tests that a survivor has survived")
    parser.add_argument("--mutant", action="append", default=[], help="this one only, FILE#NUMBER; several if repeated")
    parser.add_argument("--tests", nargs="*", help="run these, instead of those that reach the mutant")
    parser.add_argument("--control", action="store_true", help="change nothing, so that all must survive")
    return parser.parse_args()


def _killed(mutant: Mutant, reach: Reach | None, arguments: argparse.Namespace) -> bool:
    began = time.monotonic()
    tests = reach.tests_for(mutant, arguments.budget) if reach else arguments.tests
    limit_s = 3 * arguments.budget + SECONDS_PER_TEST
    swapped = None if arguments.control else mutant
    killed = any(is_killed(swapped, some, limit_s) for some in (tests[:FEW], tests[FEW:]) if some)
    where, took = f"{mutant.path}:{mutant.lines.start}", time.monotonic() - began
    print(f"{'killed' if killed else 'SURVIVED'} {where} ({mutant}, {len(tests)} tests, {took:.1f} s)")
    print(*(f"    {line}" for line in mutant.diff() if not killed), sep="\n", end="" if killed else "\n", flush=True)
    return killed


def _report(chosen: Sequence[Mutant], survivors: Sequence[Mutant]) -> None:
    of_package, survived = Counter(m.package for m in chosen), Counter(m.package for m in survivors)
    print(f"\n{'package':10} {'mutants':>8} {'killed':>8} {'survived':>8} {'score':>8}")
    rows = [(package, of_package[package], survived[package]) for package in sorted(of_package)]
    for package, mutants, left in [*rows, ("all", len(chosen), len(survivors))]:
        print(f"{package:10} {mutants:8} {mutants - left:8} {left:8} {(mutants - left) / max(mutants, 1):8.1%}")


if __name__ == "__main__":
    main()
