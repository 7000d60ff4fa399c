"""Write the golden transcripts, or check them: `python -m tests.golden [--check | --table] [NAME ...]`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from tests.golden.every_scenario import SCENARIOS, chosen
from tests.golden.play import SETS, STORES, TRANSCRIPTS, differences, files_of, read, stage, with_links, written

SEEDS = 1_000_000
IN_MEMORY = Path("/dev/shm")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of scenario names; without any: all scenarios")
    parser.add_argument("--check", action="store_true", help="write nothing; print the differences")
    parser.add_argument("--table", action="store_true", help="print the scenarios, and what is left out")
    parser.add_argument("--capture", action="store_true", help="record the requests of the installed clients again")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) else None) as folder:
        if given.capture:
            from tests.golden.capture import capture

            capture(Path(folder))
            return 0
        if given.table:
            from tests.golden.coverage import table

            print(table())
            return 0
        return check(given.names, Path(folder)) if given.check else write(given.names, Path(folder))


def check(names: list[str], folder: Path) -> int:
    """Print the differences from the transcripts; return their number."""
    found = 0
    seed = SystemRandom().randrange(SEEDS)
    with stage(folder) as running:
        for scenario in chosen(names):
            for store in scenario.only:
                if diff := differences(scenario, store, running.play(scenario, store, seed)):
                    found += 1
                    print(diff)
    return found


def write(names: list[str], folder: Path) -> int:
    """Write the transcripts of these scenarios and remove stale files; return the number of scenarios that failed."""
    began, processor = time.monotonic(), time.process_time()
    files = {path: read(path) for path in TRANSCRIPTS.rglob("*.txt")}
    failed = 0
    with stage(folder) as running:
        for scenario in chosen(names):
            try:
                now = written(scenario, running)
            except Exception as problem:  # noqa: BLE001 - the other scenarios are still written
                failed += 1
                print(f"=== {scenario.name}: {type(problem).__name__}\n{problem}", file=sys.stderr)
                continue
            paths = {path for of in SETS for store in STORES for path in files_of(scenario.name, store, of)}
            files = {path: text for path, text in files.items() if path not in paths} | now
    if not names:
        current = {path for name in SCENARIOS for of in SETS for store in STORES for path in files_of(name, store, of)}
        files = {path: text for path, text in files.items() if path in current}
    for old in set(TRANSCRIPTS.rglob("*.txt")) - files.keys():
        old.unlink()
    files = with_links(files)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    size = sum(len(text.encode()) for text in files.values())
    took = f"{time.monotonic() - began:.0f} s, {time.process_time() - processor:.0f} s of processor time"
    print(f"{len(files)} files, {size / 1e6:.2f} MB, in {took}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
