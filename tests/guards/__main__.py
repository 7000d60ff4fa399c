"""Take every guard out, one after the other, and print which test notices: `python -m tests.guards --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.guards.every_guard import GUARDS
from tests.guards.guard import Guard
from tests.guards.workplace import BROKEN_EDIT, GuardNotFound, Outcome, Workplace

ALONE_S = 120
ALL_S = 900


@dataclass(frozen=True)
class Verdict:
    """The result of a removed guard: the tests that went red, after how long and why, or the problem."""

    guard: Guard
    red: tuple[str, ...] = ()
    seconds: float = 0
    problem: str = ""
    why: str = ""

    @property
    def row(self) -> str:
        seen = "<br>".join(self.red) if not self.problem else f"**{self.problem.splitlines()[0]}**"
        return f"| {self.guard.race} | {self.guard.name} | {seen} | {self.seconds:.1f} |"


def judged(guard: Guard, workplace: Workplace) -> Verdict:
    """Return the verdict of the guard's tests without it."""
    try:
        with workplace.without(guard.edits):
            outcome = workplace.run(guard.tests, ALONE_S)
    except GuardNotFound as error:
        return Verdict(guard, problem=str(error))
    return _verdict(guard, outcome)


def _verdict(guard: Guard, outcome: Outcome) -> Verdict:
    if outcome.is_hanging:
        return Verdict(guard, tuple(f"{_name_of(test)} (hangs)" for test in guard.tests), outcome.seconds)
    if green := [test for test in guard.tests if not outcome.is_red(test)]:
        return Verdict(guard, (), outcome.seconds, f"stays green: {', '.join(green)}")
    if odd := [why for why in outcome.failed.values() if BROKEN_EDIT.search(why)]:
        return Verdict(guard, (), outcome.seconds, f"red because of the edit: {odd[0]}")
    why = next(iter(outcome.failed.values()))[:120]
    return Verdict(guard, tuple(map(_name_of, guard.tests)), outcome.seconds, why=why)


def _name_of(test: str) -> str:
    """Return a test's file and name, as a cell of a table takes it."""
    file, *_, name = test.split("::")
    return f"{Path(file).stem}: {name}".replace("|", "\\|")


def all_judged(guards: Sequence[Guard], jobs: int) -> list[Verdict]:
    """Return the verdicts in the guards' order, each printed as a line of progress as it comes."""
    with TemporaryDirectory(prefix="guards-") as folder, ExitStack() as closing, ThreadPoolExecutor(jobs) as pool:
        workplaces = SimpleQueue[Workplace]()
        for number in range(jobs):
            workplace = Workplace(Path(folder) / str(number))
            closing.callback(workplace.close)
            workplaces.put(workplace)

        def in_a_workplace(guard: Guard) -> Verdict:
            workplace = workplaces.get()
            try:
                verdict = judged(guard, workplace)
            finally:
                workplaces.put(workplace)
            sign = "?" if verdict.problem else "."
            line = f"{sign} {verdict.seconds:5.1f} s  {guard.name}: {verdict.problem or verdict.why}"
            print(line, file=sys.stderr, flush=True)
            return verdict

        workplace = workplaces.get()
        unbroken = workplace.run(sorted({test for guard in guards for test in guard.tests}), ALL_S)
        workplaces.put(workplace)
        if not unbroken.is_green:
            sys.exit(f"the tests are not green to begin with:\n{unbroken.output[-4_000:]}")
        print(f"unbroken, all tests are green in {unbroken.seconds:.1f} s", file=sys.stderr, flush=True)
        return list(pool.map(in_a_workplace, guards))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="only guards whose name, or whose race, has this in it")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="how many at the same time (default: 1)")
    arguments = parser.parse_args()
    guards = [guard for guard in GUARDS if not arguments.only or arguments.only in f"{guard.race} {guard.name}"]
    if not guards:
        parser.error(f"no guard is called {arguments.only!r}")
    verdicts = all_judged(guards, arguments.jobs)
    print("| race | guard removed | red test | s |\n|---|---|---|---:|")
    for verdict in verdicts:
        print(verdict.row)
    open_races = [verdict for verdict in verdicts if verdict.problem]
    print(f"\n{len(verdicts)} guards taken out: {len(verdicts) - len(open_races)} turned their tests red")
    for verdict in open_races:
        print(f"\n{verdict.guard.name}: {verdict.problem}", file=sys.stderr)
    return 1 if open_races else 0


if __name__ == "__main__":
    sys.exit(main())
