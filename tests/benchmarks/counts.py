"""The counts of a plain turn as figures: calls, round trips, capacity."""

from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figures import Figure, counted
from tests.benchmarks.plain_turn import count_plain_turns

CALLS = 4
ROUND_TRIPS = 3
MOST_WRITE_UNITS = 20
MOST_READ_UNITS = {4_000: 10, 32_000: 40}


def counts_of_plain_turn(folder: Path) -> Iterator[Figure]:
    """Yield, for each length of history and each budget, the dearest of several turns."""
    for plain in count_plain_turns(folder):
        after = f"counts: after {plain.turns_before:,}, budget {plain.budget_tokens:,}:"
        most = plain.most
        yield counted(f"{after} calls", most.calls, "", CALLS, "be exactly")
        yield counted(f"{after} round trips", most.round_trips, "", ROUND_TRIPS, "be exactly")
        yield counted(f"{after} read units", most.read_units, "", MOST_READ_UNITS[plain.budget_tokens], "be at most")
        yield counted(f"{after} write units", most.write_units, "", MOST_WRITE_UNITS, "be at most")
