"""Measure Turnstone: `python -m tests.benchmarks [--json bench.json] [--only NAME]`.

Counts are the same on every machine and are asserted: the run fails if one is off. Times are printed with their bars.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.counts import counts_of_operations
from tests.benchmarks.crowd import crowd
from tests.benchmarks.figures import Figure, table
from tests.benchmarks.first_token import first_tokens
from tests.benchmarks.floor import turns_beside_the_floor
from tests.benchmarks.floor_letta import messages_beside_the_floor
from tests.benchmarks.floor_responses import responses_beside_the_floor
from tests.benchmarks.imports import starts_of_functions
from tests.benchmarks.load import gets_while_turns_wait, throughput
from tests.benchmarks.machine import machine_in_words, state_of_machine
from tests.benchmarks.mcp_calls import mcp_calls
from tests.benchmarks.memory import banks
from tests.benchmarks.memory_counts import counts_of_memory
from tests.benchmarks.retrieval_quality import retrieval_quality
from tests.benchmarks.start import start_and_memory
from tests.benchmarks.turns import first_turns, many_deltas, turns_after_history, turns_with_full_context

# Not the usual folder for temporary files, which often is no disk: a benchmark syncs to a real disk.
ON_DISK = Path("/var/tmp")

MEASUREMENTS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "counts": counts_of_operations,
    "counts of memory": counts_of_memory,
    "turn": first_turns,
    "floor": turns_beside_the_floor,
    "responses": responses_beside_the_floor,
    "letta": messages_beside_the_floor,
    "first token": first_tokens,
    "history": turns_after_history,
    "context": turns_with_full_context,
    "deltas": many_deltas,
    "waiting": gets_while_turns_wait,
    "crowd": crowd,
    "mcp": mcp_calls,
    "memory": banks,
    "start": start_and_memory,
    "functions": starts_of_functions,
    "throughput": throughput,
    "retrieval": retrieval_quality,
}


def main() -> None:
    """Measure, print a table, write the JSON, and exit with 1 if a count is off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="where the figures are written")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="measure this; may be repeated")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    folder = Path(tempfile.mkdtemp(prefix="turnstone-bench-", dir=ON_DISK))
    try:
        before = state_of_machine(folder)
        for name in arguments.only or MEASUREMENTS:
            print(f"measuring: {name}", file=sys.stderr, flush=True)
            figures += MEASUREMENTS[name](folder / name)
        after = state_of_machine(folder)
    finally:
        shutil.rmtree(folder)
    print(f"{table(figures)}\n\nmachine before: {machine_in_words(before)}\nmachine after:  {machine_in_words(after)}")
    found = {"machine": {"before": before, "after": after}, "figures": [figure.to_json() for figure in figures]}
    arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(any(figure.has_failed for figure in figures))


if __name__ == "__main__":
    main()
