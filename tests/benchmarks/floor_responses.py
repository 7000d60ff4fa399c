"""Responses beside the floor, and at the end of a chain of 1,000 beside its begin."""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median

from tests.benchmarks.clients import Failed, Operation, drive, quantile
from tests.benchmarks.figures import Figure
from tests.benchmarks.floor import BATCHES, CLIENTS, FOREVER_S, MODEL, Batch, Party, compared, floor_server
from tests.benchmarks.http_client import encoded
from tests.benchmarks.processes import model_server, turnstone
from tests.benchmarks.responses_counted import stored_chain
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.store.layout.oversize import OversizeStore

PATH = "/v1/openai/v1/responses"
ID = re.compile(rb'"id":"(resp_[\w-]+)"')
RATIO_BAR, RATE_BAR = 2.0, 0.45
CHAIN, CHAIN_PAIRS, CHAIN_BAR = 1_000, 7, 1.25
RESPONSES_OF_A_BATCH = 48


@dataclass(frozen=True, slots=True)
class Responder(Party):
    """A server that is requested for responses, each client's in a chain."""

    def chain_p50_ms(self, previous: str | None) -> float:
        """Return the median time of responses that continue this one, each the last."""
        chains = deque([previous or ""])
        operations = (self._turn(chains, 1) for _ in repeat(None, RESPONSES_OF_A_BATCH))
        load = drive(self.server.port, operations, 1, FOREVER_S)
        assert not load.failures, load.failures[:3]
        return quantile(load.times_s, 0.5) * 1_000

    def _new_session(self, number: int) -> str:
        return ""

    def _turn(self, sessions: deque[str], deltas: int) -> Operation:
        previous = sessions.popleft()
        answer = yield encoded_response("instant" if deltas == 1 else f"words-{deltas}", previous)
        found = ID.search(answer)
        if found is None or b"response.completed" not in answer:
            raise Failed("the response did not complete")
        sessions.append(found[1].decode())


def encoded_response(text: str, previous: str = "") -> bytes:
    body = {"model": MODEL, "input": text, "stream": True, "truncation": "auto"}
    return encoded("POST", PATH, {**body, "previous_response_id": previous} if previous else body)


def responses_beside_the_floor(folder: Path) -> Iterator[Figure]:
    """Yield how many times the floor's processor time and median time our responses take, and the length of a chain."""
    with model_server(MODEL) as model, floor_server(folder, model.port) as floor, _ours(folder, model.port) as mine:
        ours, newest = mine
        for clients in CLIENTS:
            yield from _figures(compared(floor, ours, 1, clients, BATCHES[1]), clients)
        pairs = [_chains(ours, newest, number) for number in range(CHAIN_PAIRS + 1)][1:]
    ratio = median(long / short for short, long in pairs)
    spread = (("ms at 1", median(short for short, _ in pairs)), ("ms at 1,000", median(long for _, long in pairs)))
    yield Figure(f"response at the end of a chain of {CHAIN:,}, p50", ratio, "×", CHAIN_BAR, spread=spread)


def _chains(ours: Responder, newest: deque[str], number: int) -> tuple[float, float]:
    """Return the median times at the begin of a chain and after many; each begins every second pair."""
    if number % 2:
        long = ours.chain_p50_ms(newest.popleft())
        return ours.chain_p50_ms(None), long
    return ours.chain_p50_ms(None), ours.chain_p50_ms(newest.popleft())


def _figures(pairs: list[tuple[Batch, Batch]], clients: int) -> Iterator[Figure]:
    where = f"floor: response of 1 delta, {clients} client{'s' if clients > 1 else ''}"
    for what, name in (("processor time", "cpu_ms"), ("p50", "p50_ms")):
        values = [(getattr(floor, name), getattr(mine, name)) for floor, mine in pairs]
        floor_ms, mine_ms = (median(column) for column in zip(*values, strict=True))
        spread = (("floor ms", floor_ms), ("ours ms", mine_ms), ("pairs", len(values)))
        ratio = median(mine / floor for floor, mine in values)
        yield Figure(f"{where}, {what}", ratio, "×", RATIO_BAR if clients == 1 else None, spread=spread)
    if clients > 1:
        share = median(mine.rate / floor.rate for floor, mine in pairs)
        floor_rate, mine_rate = median(floor.rate for floor, _ in pairs), median(mine.rate for _, mine in pairs)
        rates = (("floor a second", floor_rate), ("ours a second", mine_rate))
        yield Figure(f"{where}, rate", share, "×", RATE_BAR, "be at least", spread=rates)


@contextmanager
def _ours(folder: Path, model_port: int) -> Iterator[tuple[Responder, deque[str]]]:
    """Run Turnstone over chains of responses; yield it, and the id of the last response of each."""
    data = folder / "ours"
    sqlite = SqliteRangeStore(data / "turnstone.db")
    try:
        store = OversizeStore(sqlite, FileBlobStore(data / "blobs"))
        newest = deque(stored_chain(store, CHAIN, seed, MODEL) for seed in range(CHAIN_PAIRS + 1))
    finally:
        sqlite.close()
    with turnstone(data, model_port) as server:
        yield Responder(server, "", is_floor=False), newest
