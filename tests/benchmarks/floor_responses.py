"""Responses beside the floor, and at the end of a chain of 1,000 beside its beginning."""

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
from tests.benchmarks.floor import BATCHES, CLIENTS, FOREVER_S, MODEL, Bars, Party, compared, figures, floor_server
from tests.benchmarks.http_client import encoded
from tests.benchmarks.processes import model_server, turnstone
from tests.benchmarks.responses_counted import stored_chain
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.store.layout.oversize import OversizeStore

PATH = "/v1/openai/v1/responses"
ID = re.compile(rb'"id":"(resp_[\w-]+)"')
BARS = Bars(2.0, 2.0, 0.45)
CHAIN, CHAIN_PAIRS, CHAIN_BAR = 1_000, 7, 1.25
RESPONSES_OF_A_BATCH = 48


@dataclass(frozen=True, slots=True)
class Responder(Party):
    """A server that is requested for responses, each client's in a chain."""

    def chain_p50_ms(self, previous: str = "") -> float:
        """Return the median time of responses in a chain, which continues this response or is new."""
        chains = deque([previous])
        operations = (self._turn(chains, 1) for _ in repeat(None, RESPONSES_OF_A_BATCH))
        load = drive(self.server.port, operations, 1, FOREVER_S)
        assert not load.failures, load.failures[:3]
        return quantile(load.times_s, 0.5) * 1_000

    def _new_session(self, number: int) -> str:
        return ""

    def _turn(self, sessions: deque[str], deltas: int) -> Operation:
        previous = sessions.popleft()
        assert deltas == 1, "responses are measured with one delta"
        answer = yield encoded_response("instant", previous)
        found = ID.search(answer)
        if found is None or b"response.completed" not in answer:
            raise Failed("the response did not complete")
        sessions.append(found[1].decode())


def encoded_response(text: str, previous: str) -> bytes:
    body = {"model": MODEL, "input": text, "stream": True, "truncation": "auto"}
    return encoded("POST", PATH, {**body, "previous_response_id": previous} if previous else body)


def responses_beside_the_floor(folder: Path) -> Iterator[Figure]:
    """Yield how many times the floor's processor time and median time our responses take, and the length of a chain."""
    with model_server(MODEL) as model, floor_server(folder, model.port) as floor, _ours(folder, model.port) as mine:
        ours, newest = mine
        for clients in CLIENTS:
            yield from figures(compared(floor, ours, 1, clients, BATCHES[1]), "response of 1 delta", clients, BARS)
        pairs = [_chains(ours, newest, number) for number in range(CHAIN_PAIRS + 1)][1:]
    ratio = median(long / short for short, long in pairs)
    spread = (("ms at 1", median(short for short, _ in pairs)), ("ms at 1,000", median(long for _, long in pairs)))
    yield Figure(f"response at the end of a chain of {CHAIN:,}, p50", ratio, "×", CHAIN_BAR, spread=spread)


def _chains(ours: Responder, newest: deque[str], number: int) -> tuple[float, float]:
    """Return the median times at the beginning of a chain and after many; each is first in every second pair."""
    if number % 2:
        long = ours.chain_p50_ms(newest.popleft())
        return ours.chain_p50_ms(), long
    return ours.chain_p50_ms(), ours.chain_p50_ms(newest.popleft())


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
