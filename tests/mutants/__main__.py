"""Change the code in many small ways and see whether a test notices: `python -m tests.mutants [--sample 200]`.

The mutants are mutmut's, of the packages that pyproject.toml names for it (it leaves alone what is decorated); a sample
of them is taken by a seed. Each runs against the tests that reach its lines, in a process of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutant import Mutant, all_mutants, named
from tests.mutants.reach import Reach, measured
from tests.mutants.trial import SECONDS_PER_TEST, is_killed, preload

# Fast and fitting: neither what reads the sources or starts processes, nor what waits for an emulator of the cloud.
LEFT_OUT = (
    *(f"tests/unit/test_{name}.py" for name in ("architecture", "config", "openapi", "dynamo_requests", "openai_wire")),
    *(f"tests/integration/test_{name}.py" for name in ("authorizer", "counted_cost", "deletion_on_dynamodb", "events")),
    *(f"tests/integration/test_{name}.py" for name in ("import_budgets", "last_byte", "layer", "load_clients")),
    *(f"tests/integration/test_{name}.py" for name in ("model_connections", "openai_compatible", "openai_failures")),
    *(f"tests/integration/test_{name}.py" for name in ("openai_server", "side_by_side", "sqlite_survives_sigkill")),
    *(f"tests/integration/test_{name}.py" for name in ("state_machine", "supervised_runs", "supervised_turns")),
    *(f"tests/integration/test_{name}.py" for name in ("template", "template_rights", "hand_over")),
    "tests/integration/crash_matrix",
)
SELECTION = (
    *("tests/unit", "tests/integration", "-m", "not slow and not alone", "-k", "not dynamodb"),
    *(f"--ignore={path}" for path in LEFT_OUT),
)


def main() -> None:
    arguments = _arguments()
    preload()
    known = all_mutants()
    chosen = [named(text) for text in arguments.mutant] or random.Random(arguments.seed).sample(known, arguments.sample)
    with tempfile.TemporaryDirectory() as folder:
        reach = None if arguments.tests else measured(SELECTION, Path(folder))
    if reach and reach.failed:
        print("fail without any mutant, and are left out:", *reach.failed, sep="\n  ")
    print(f"{len(chosen)} of {len(known)} mutants, seed {arguments.seed}", flush=True)
    survivors = [mutant for mutant in chosen if not _killed(mutant, reach, arguments)]
    _tell(chosen, survivors)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which of them")
    parser.add_argument("--budget", type=float, default=20, help="seconds of tests that a mutant must survive")
    parser.add_argument(
        "--mutant", action="append", default=[], help="this one only, as it was told; several if repeated"
    )
    parser.add_argument("--tests", nargs="*", help="run these, instead of those that reach the mutant")
    return parser.parse_args()


def _killed(mutant: Mutant, reach: Reach | None, arguments: argparse.Namespace) -> bool:
    began = time.monotonic()
    tests = reach.tests_for(mutant, arguments.budget) if reach else arguments.tests
    killed = bool(tests) and is_killed(mutant, tests, 3 * arguments.budget + SECONDS_PER_TEST)
    where = f"{mutant.path}:{mutant.lines.start}"
    print(
        f"{'killed' if killed else 'SURVIVED'} {where} ({mutant}, {len(tests)} tests, {time.monotonic() - began:.1f} s)"
    )
    if not killed:
        print(*(f"    {line}" for line in mutant.diff), sep="\n")
    sys.stdout.flush()
    return killed


def _tell(chosen: Sequence[Mutant], survivors: Sequence[Mutant]) -> None:
    of_package, survived = Counter(m.package for m in chosen), Counter(m.package for m in survivors)
    print(f"\n{'package':10} {'mutants':>8} {'killed':>8} {'survived':>8} {'score':>8}")
    rows = [*((package, of_package[package], survived[package]) for package in sorted(of_package))]
    for package, mutants, left in [*rows, ("all", len(chosen), len(survivors))]:
        print(f"{package:10} {mutants:8} {mutants - left:8} {left:8} {(mutants - left) / max(mutants, 1):8.1%}")


if __name__ == "__main__":
    main()
