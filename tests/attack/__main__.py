"""`make attack`: run every attack at full size and print a table; fail if a bar or the three minutes are missed."""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from tests.attack.every_attack import every_attack
from tests.attack.finding import Attack

MOST_SECONDS = 180.0
AT_ONCE = 2
ROW = "{:<26} {:<62} {:<44} {:<30} {}"


def main() -> int:
    """Return 0 if every bar is met in time."""
    arguments = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    arguments.add_argument("--only", default="", help="run the attacks whose subject contains this text")
    only = arguments.parse_args().only
    began = time.monotonic()
    table = sys.stdout
    print(ROW.format("subject", "attack", "measured", "bar", "met"), file=table)
    logs = io.StringIO()  # the servers' logs, which would mix with the rows
    with redirect_stdout(logs), ThreadPoolExecutor(AT_ONCE) as pool:  # most of an attack is waiting
        runs = [pool.submit(_has_met, attack, table) for attack in every_attack() if only in attack.subject]
    broken = [run.exception() for run in runs if run.exception() is not None]
    for problem in broken:
        traceback.print_exception(problem, file=table)
    has_met_all = not broken and all(run.result() for run in runs)
    took_s = time.monotonic() - began
    print(f"{took_s:.0f} s of {MOST_SECONDS:.0f} s at most")
    return 0 if has_met_all and took_s <= MOST_SECONDS else 1


def _has_met(attack: Attack, table: TextIO) -> bool:
    """Run the attack and print its rows; return whether every bar is met."""
    has_met = True
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for finding in attack.run(Path(folder), True):
            met = "yes" if finding.is_met else "NO"
            row = ROW.format(attack.subject, finding.what, finding.measured, finding.bar, met)
            print(row, file=table, flush=True)
            has_met = has_met and finding.is_met
    took = f"took {time.monotonic() - began:.0f} s"
    print(ROW.format(attack.subject, "", took, "", ""), file=table, flush=True)
    return has_met


if __name__ == "__main__":
    sys.exit(main())
