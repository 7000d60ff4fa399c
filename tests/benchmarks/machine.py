"""How the machine itself is doing, so that times can be judged: its processor and its disk, busy with others or not."""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any

REPETITIONS = 200


def state_of_machine(folder: Path) -> dict[str, Any]:
    """Return times that depend on nothing of ours: a loop, and a page written to the disk the folder is on."""
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "loop_ms": _times_ms(_loop),
        "fsync_ms": _fsync_times_ms(folder),
    }


def machine_in_words(state: dict[str, Any]) -> str:
    loop, fsync = state["loop_ms"], state["fsync_ms"]
    return (
        f"Python {state['python']}, {state['cores']} cores, load {state['load']}; "
        f"a loop {loop['p50']} ms (p90 {loop['p90']}), a page to the disk {fsync['p50']} ms (p90 {fsync['p90']})"
    )


def _loop() -> None:
    sum(range(20_000))


def _fsync_times_ms(folder: Path) -> dict[str, float]:
    with tempfile.TemporaryFile(dir=folder) as file:

        def write() -> None:
            file.write(bytes(4_096))
            file.flush()
            os.fsync(file.fileno())

        return _times_ms(write)


def _times_ms(work: Callable[[], None]) -> dict[str, float]:
    times_ms = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        work()
        times_ms.append((time.perf_counter() - began) * 1_000)
    tenths = quantiles(times_ms, n=10)
    return {"p50": round(tenths[4], 3), "p90": round(tenths[8], 3)}
