"""The start of the server, and its memory without requests."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.benchmarks.figures import Figure, of_times
from tests.benchmarks.processes import turnstone

STARTS = 7


def start_and_memory(folder: Path) -> Iterator[Figure]:
    """Yield how long after its start the server answers, and its memory then."""
    ready_s: list[float] = []
    memory_mb: list[float] = []
    for number in range(STARTS):
        with turnstone(folder / str(number)) as server:
            ready_s.append(server.ready_s)
            memory_mb.append(server.memory_mb())
    yield of_times("start: until it answers", ready_s, bar_ms=1_500)
    yield Figure("start: memory when idle", median(memory_mb), "MB", 90)
