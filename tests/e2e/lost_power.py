"""Lose the power of a disk at many moments of a server's work: `python -m tests.e2e.lost_power [--moments 40]`.

The real server, in two processes, runs under strace, while clients open sessions and take turns, some of them so long
that they are stored outside of the database. Then disks are made as a loss of power could leave them just after a
client received a result: every synced write is there, and some of the others. A server is started over each disk, and
must return every result that was received until that moment.
"""

from __future__ import annotations

import argparse
import functools
import io
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tests.support.clients.plain_client import Json, PlainClient, turn_body
from tests.support.server.servers import ModelProcess, ServerProcess, wait_until
from tests.support.stores.disk_trace import STRACE, Call, Disk, calls_in, has_ended

CLIENTS = 6
TURNS = 4
LONG_EVERY = 3
LONG_BYTES = 360_000  # twice as many characters: more than a record holds, compressed or not
TRACE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """A result that a client received, and when: a session's path, with one more turn of it unless it is new."""

    at: float
    session: str
    turn: Json | None = None


class TracedServer(ServerProcess):
    """A server of two processes, whose system calls are traced."""

    def __init__(self, folder: Path, data_dir: Path, model_url: str) -> None:
        super().__init__(folder, data_dir=data_dir, model_url=model_url, processes=2)
        self.trace = folder / "trace"

    def _command(self) -> list[str]:
        return [*STRACE, "-o", str(self.trace), *super()._command()]


def lost_power(
    folder: Path, moments: int, sessions: int, seed: int, report: Callable[[str], object] = print
) -> Counter[str]:
    """Return the counts. Raises AssertionError if a result received before a loss of power is lost by it."""
    chance = random.Random(seed)
    disk = folder / "disk"
    disk.mkdir()
    with ModelProcess() as model:
        with TracedServer(folder, disk / "data", model.url) as server:
            results = _results(server.url, sessions, seed)
        wait_until(lambda: has_ended(server.trace), TRACE_TIMEOUT_S, "the trace did not end")
        with server.trace.open(errors="surrogateescape") as trace:
            calls = calls_in(trace)
        counts = Counter({"sessions and turns received": len(results)})
        chosen = _moments(results, calls, moments, chance)
        for moment, left in zip(chosen, _disks(disk, calls, chosen, chance), strict=True):
            before = [one for one in results if one.at <= moment]
            counts["results checked"] += _assert_kept(left, before, model.url)
            counts["losses of power"] += 1
            shutil.rmtree(left)
    report(", ".join(f"{count} {name}" for name, count in counts.items()))
    report("every result received before each of them is stored")
    return counts


def _results(url: str, sessions: int, seed: int) -> list[Result]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        visits = [pool.submit(_visits, url, sessions, random.Random(f"{seed} {number}")) for number in range(CLIENTS)]
        results = [one for visit in visits for one in visit.result()]
    return sorted(results, key=lambda one: one.at)


def _visits(url: str, sessions: int, chance: random.Random) -> list[Result]:
    results = []
    with PlainClient(url) as http:
        for number in range(sessions):
            session = http.open_session()
            results.append(Result(time.time(), session))
            for turn in range(TURNS):
                is_long = turn == number % LONG_EVERY
                answer = http.post(f"{session}/turn", turn_body(chance.randbytes(LONG_BYTES if is_long else 20).hex()))
                assert answer.status_code == 200, answer.text
                results.append(Result(time.time(), session, answer.json()))
    return results


def _moments(results: Sequence[Result], calls: Sequence[Call], number: int, chance: random.Random) -> list[float]:
    """Return moments just after a client received a result and, a quarter of them, after a write to the database."""
    times = [call.ended_at for call in calls if call.name == "pwrite64" and call.path.endswith(".db")]
    times = [at for at in times if at > results[0].at]
    chosen = chance.sample(times, min(number // 4, len(times)))
    return sorted([*chosen, *(one.at for one in chance.sample(results, min(number, len(results)) - len(chosen)))])


def _disks(root: Path, calls: Sequence[Call], moments: Sequence[float], chance: random.Random) -> Iterator[Path]:
    """Yield a folder as it could be found after a loss of power at each moment, the earliest first."""
    disk = Disk(root)
    coming = iter(calls)
    call = next(coming)
    for number, moment in enumerate(moments):
        while call.ended_at <= moment:
            disk.take(call)
            call = next(coming)
        left = root.parent / f"left-{number}"
        disk.left(left, chance)
        yield left


def _assert_kept(left: Path, results: Sequence[Result], model_url: str) -> int:
    """Assert that a server over that disk returns every result; return their number."""
    with closing(sqlite3.connect(left / "data" / "turnstone.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with ServerProcess(left, model_url=model_url) as server, PlainClient(server.url) as http:
        for session in {one.session for one in results}:
            turns = [one.turn for one in results if one.session == session and one.turn is not None]
            assert http.get(session)["turns"][: len(turns)] == turns
    return len(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=40, help="how often the power is lost")
    parser.add_argument("--sessions", type=int, default=12, help=f"of each of the {CLIENTS} clients, of {TURNS} turns")
    parser.add_argument("--seed", type=int, default=1, help="seed of the messages, the moments and the lost writes")
    given = parser.parse_args()
    logs, report = io.StringIO(), functools.partial(print, file=sys.stdout)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with redirect_stdout(logs):
                lost_power(Path(folder), given.moments, given.sessions, given.seed, report)
        except AssertionError:
            print(logs.getvalue(), file=sys.stderr)
            raise


if __name__ == "__main__":
    main()
