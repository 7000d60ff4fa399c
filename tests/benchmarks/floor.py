"""Turns beside a floor: the least that a server can do that calls a model, streams and commits twice to SQLite.

Both servers get the same batches in turns, so that the load of the machine falls on both; the median of the ratios of
the pairs counts. Processor time comes first: it depends less on other load than the time to an answer.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks.clients import Failed, Operation, drive, quantile
from tests.benchmarks.figures import Figure
from tests.benchmarks.http_client import HOST
from tests.benchmarks.processes import REPOSITORY, Program, Server, free_port, model_server, started, turnstone
from tests.benchmarks.turns import Asker, encoded_turn

FLOOR = Path(__file__).with_name("floor_server.py")
MODEL = "m"  # the floor's server requests no other; it answers as the model that the user names
PAIRS = 11
# deltas of an answer, and how many turns make a batch
BATCHES = {1: 96, 1_000: 16}
CLIENTS = (1, 8)
FOREVER_S = 600.0


class Bars(NamedTuple):
    """The most times the floor's that one client may take, and the least share of the floor's rate with eight."""

    cpu: float | None = None
    p50: float | None = None
    rate: float | None = None


BARS = {1: Bars(1.7, 1.7, 0.55), 1_000: Bars(1.0)}


@dataclass(frozen=True, slots=True)
class Batch:
    """The cost of one batch: processor time of the server for each turn, the median time to its end, turns a second."""

    cpu_ms: float
    p50_ms: float
    rate: float


@dataclass(frozen=True, slots=True)
class Party:
    """A server, and how a session is opened there."""

    server: Server
    agent_id: str
    is_floor: bool

    def batch(self, deltas: int, clients: int, turns: int) -> Batch:
        """Run turns in a new session of each client. Raises AssertionError if one fails."""
        sessions = self._new_sessions(clients, turns)
        operations = (self._turn(sessions, deltas) for _ in repeat(None, turns))
        before_s, began_s = self.server.cpu_s(), time.perf_counter()
        load = drive(self.server.port, operations, clients, FOREVER_S)
        cpu_s, took_s = self.server.cpu_s() - before_s, time.perf_counter() - began_s
        assert not load.failures, load.failures[:3]
        return Batch(cpu_s / turns * 1_000, quantile(load.times_s, 0.5) * 1_000, turns / took_s)

    def _new_sessions(self, clients: int, turns: int) -> deque[str]:
        """Return the sessions of a batch, one for each client; a turn takes the first and puts it behind the others."""
        return deque(self._new_session(number) for number in range(clients))

    def _new_session(self, number: int) -> str:
        if self.is_floor:
            return f"{os.urandom(8).hex()}-{number}"
        with self.server.connect() as connection:
            return Asker(connection).new_session(self.agent_id)

    def _turn(self, sessions: deque[str], deltas: int) -> Operation:
        session_id = sessions.popleft()
        answer = yield encoded_turn(self.agent_id, session_id, "instant" if deltas == 1 else f"words-{deltas}")
        sessions.append(session_id)
        if b"turn_complete" not in answer:
            raise Failed("the turn did not complete")


def turns_beside_the_floor(folder: Path) -> Iterator[Figure]:
    """Yield how many times the floor's processor time and median time our turns take."""
    with model_server(MODEL) as model, floor_server(folder, model.port) as floor, ours(folder, model.port) as mine:
        for deltas, turns in BATCHES.items():
            for clients in CLIENTS:
                pairs = compared(floor, mine, deltas, clients, turns)
                several = f"{deltas:,} delta{'s' if deltas > 1 else ''}"
                yield from figures(pairs, f"turn of {several}", clients, BARS[deltas])


def compared(first: Party, second: Party, deltas: int, clients: int, turns: int) -> list[tuple[Batch, Batch]]:
    """Return pairs of batches of both servers, each of which begins every second pair; one before them warms up."""
    pairs = []
    for number in range(PAIRS + 1):
        order = (first, second) if number % 2 else (second, first)
        batches = {id(party): party.batch(deltas, clients, turns) for party in order}
        pairs.append((batches[id(first)], batches[id(second)]))
    return pairs[1:]


def figures(pairs: list[tuple[Batch, Batch]], subject: str, clients: int, bars: Bars) -> Iterator[Figure]:
    """Yield the medians of the ratios, with the medians of both servers."""
    where = f"floor: {subject}, {clients} client{'s' if clients > 1 else ''}"
    of_one = (bars.cpu, bars.p50) if clients == 1 else (None, None)
    for (what, name), bar in zip((("processor time", "cpu_ms"), ("p50", "p50_ms")), of_one, strict=True):
        values = [(getattr(floor, name), getattr(mine, name)) for floor, mine in pairs]
        floor_ms, mine_ms = (median(column) for column in zip(*values, strict=True))
        ratio = median(mine / floor for floor, mine in values)
        spread = (("floor ms", floor_ms), ("ours ms", mine_ms), ("pairs", len(values)))
        yield Figure(f"{where}, {what}", ratio, "×", bar, spread=spread)
    if clients > 1:
        share = median(mine.rate / floor.rate for floor, mine in pairs)
        floor_rate, mine_rate = median(floor.rate for floor, _ in pairs), median(mine.rate for _, mine in pairs)
        rates = (("floor a second", floor_rate), ("ours a second", mine_rate), ("pairs", len(pairs)))
        yield Figure(f"{where}, rate", share, "×", bars.rate, "be at least", spread=rates)


@contextmanager
def floor_server(folder: Path, model_port: int) -> Iterator[Party]:
    """Run the floor's server over a database in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    arguments = (str(port), str(folder / "floor.db"), f"http://{HOST}:{model_port}/v1")
    command = [sys.executable, str(FLOOR), *arguments]
    with started(Program(command, os.environ, REPOSITORY, folder / "floor.log", port)) as server:
        yield Party(server, "a", is_floor=True)


@contextmanager
def ours(folder: Path, model_port: int) -> Iterator[Party]:
    """Run Turnstone over a database in the folder."""
    with turnstone(folder / "ours", model_port) as server, server.connect() as connection:
        yield Party(server, Asker(connection).new_agent(MODEL), is_floor=False)
