"""Memory banks: searches, quiet and during an ingest, the first one after a start, and the cost of an ingest.

Each measurement is a process of its own, `bank_here.py`. Times are processor time: that of the embedder is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import REPOSITORY

SMALL, MIDDLE, LARGE = 5_000, 10_000, 50_000
MEASURED_S = 900
INGEST_BAR_MS = 2.5  # of a chunk; the default embedder takes 0.3 more
GROWN_BAR_MB = 100
FIRST_BAR_MS = 1_500
SEARCH_BARS_MS = {SMALL: 15, LARGE: 60}
TIMES_QUIET_BAR = 2
MORE_CHUNKS = 2_000


def banks(folder: Path) -> Iterator[Figure]:
    """Yield the figures of banks of all sizes."""
    yield from searches_and_ingests(folder, (SMALL, MIDDLE, LARGE))


def searches_and_ingests(folder: Path, sizes: tuple[int, ...]) -> Iterator[Figure]:
    """Yield the figures of a bank of each size, and those of one document of 10,000 chunks."""
    for chunks in sizes:
        yield from _of_bank(folder / str(chunks), chunks)
    book = _measured("document", folder / "document", MIDDLE)
    what = f"memory: a document of {MIDDLE:,} chunks"
    yield Figure(f"{what}, a chunk", book["ms"], "ms", INGEST_BAR_MS)
    yield Figure(f"{what}, growth of the process", book["grown_mb"], "MB", GROWN_BAR_MB)


def _of_bank(folder: Path, chunks: int) -> Iterator[Figure]:
    what = f"memory: {chunks:,} chunks"
    filled = _measured("fill", folder, chunks)
    yield Figure(f"{what}, ingest of a chunk", filled["ms"], "ms", INGEST_BAR_MS)
    if chunks <= MIDDLE:
        yield Figure(f"{what}, growth of the process", filled["grown_mb"], "MB", GROWN_BAR_MB)
    warm = _measured("search", folder, chunks)
    note = f"{warm['wall_ms']:.1f} ms as it passed"
    yield Figure(f"{what}, a search, p50", warm["ms"], "ms", SEARCH_BARS_MS.get(chunks), note=note)
    note = f"{warm['first_wall_ms']:.0f} ms as it passed, {warm['grown_mb']:.0f} MB of memory"
    yield Figure(f"{what}, the first search after a start", warm["first_ms"], "ms", FIRST_BAR_MS, note=note)
    if chunks == MIDDLE:
        beside = _measured("search while filled", folder, MORE_CHUNKS)
        yield Figure(
            f"{what}, a search during an ingest, p50",
            beside["ms"] / beside["quiet_ms"],
            "× quiet",
            TIMES_QUIET_BAR,
            note=f"{beside['ms']:.1f} ms of {beside['quiet_ms']:.1f}; {beside['wall_ms']:.1f} ms as it passed, "
            f"of {beside['quiet_wall_ms']:.1f}; {beside['searches']:.0f} searches",
        )


def _measured(action: str, folder: Path, chunks: int) -> dict[str, float]:
    """Return the figures of the action in a new process, whose time is that of all its threads."""
    command = [sys.executable, "-m", "tests.benchmarks.bank_here", action, str(folder), str(chunks)]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=MEASURED_S, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found
