"""A memory bank in this process, over SQLite on the disk: `bank_here.py ACTION FOLDER CHUNKS` prints figures as JSON.

Chunks have 400 words of prose, about 550 tokens, and come from a client with their vectors, so that no embedder is
measured. Questions have twelve words, common ones included.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from tests.benchmarks.prose import prose
from tests.fakes.jobs import RecordedJobs
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import BankQuestion
from turnstone.domain.models.inference import TextsToEmbed
from turnstone.domain.models.requests import Embedded
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.access.access import AccessRules
from turnstone.services.memory.banks import BankDeps, Banks
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import Folding, FoldingDeps
from turnstone.services.memory.indexes import Indexes
from turnstone.services.memory.inserting import Inserting, InsertingDeps
from turnstone.services.memory.merging import Merging
from turnstone.services.memory.searching import Searching, SearchingDeps
from turnstone.services.memory.segment_writing import SegmentWriting
from turnstone.services.threads.insertion_slots import InsertionSlots
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.memory.banks import BankStore, StoredBank
from turnstone.store.memory.contents import BankChange, BankContents

BANK, CONTENT = "library", "content"
DIMENSION = 256
LETTERS = 2_400
QUESTION_LETTERS = 70
QUESTIONS = 40
REQUEST_CHUNKS, FEW_CHUNKS = 100, 10
FIRST_REQUEST = Attempt(fingerprint="body")
MEGABYTE = 1_048_576


class BankHere:
    """The services of one bank, whose model makes a vector of a question from its length."""

    def __init__(self, folder: Path) -> None:
        store = OversizeStore(SqliteRangeStore(folder / "turnstone.db"), FileBlobStore(folder / "payloads"))
        clock, ids, jobs = SystemClock(), RandomIds(), RecordedJobs()
        self.contents = BankContents(store)
        self._store = BankStore(store)
        embedding = BankEmbedding(lambda caller, texts, data: _embedded(texts))

        def none(*_: str) -> Any:
            raise AssertionError("no model is routed, and no other store is asked")

        rules = AccessRules(owner_only=False)
        banks = Banks(BankDeps(self._store, rules, none, embedding, lambda: jobs, clock, ids, none))
        self.indexes = Indexes(self.contents, _segments)
        writing = SegmentWriting(self.contents, self.indexes, lambda: jobs, clock, ids)
        merging = Merging(self.contents, self.indexes, writing)
        self.folding = Folding(FoldingDeps(self.contents, writing, merging))
        self.inserting = Inserting(
            InsertingDeps(
                banks,
                self.contents,
                self.folding,
                embedding,
                clock,
                lambda _: None,
                InsertionSlots(has_tenants=False).taken,
            )
        )
        self.searching = Searching(SearchingDeps(banks, self.contents, self.indexes, embedding, none))
        self.ref = BankRef(LOCAL_CALLER.tenant, CONTENT, BANK)

    def make(self) -> None:
        space = VectorSpace(model="of-the-client", dimension=DIMENSION)
        bank = Bank(bank_id=BANK, kind="vector", space=space, created_at=datetime.now(UTC))
        self._store.create(LOCAL_CALLER.tenant, StoredBank(bank, CONTENT), FIRST_REQUEST)

    def insert(self, chunks: list[GivenChunk]) -> None:
        self.inserting.insert_chunks(LOCAL_CALLER, BANK, chunks, NO_PROVIDER_DATA, FIRST_REQUEST)

    def search(self, text: str) -> None:
        hits = self.searching.search(LOCAL_CALLER, BANK, BankQuestion(text, None), NO_PROVIDER_DATA)
        assert len(hits) == 10


def _segments() -> Any:
    from turnstone.adapters.retrieval.segments import NumpySegments

    return NumpySegments()


def _embedded(texts: TextsToEmbed) -> Embedded:
    return Embedded(tuple(_vector(len(text)) for text in texts.texts))


def _vector(seed: int) -> tuple[float, ...]:
    random = Random(seed)
    return tuple(random.uniform(-1, 1) for _ in range(DIMENSION))


def requests(first: int, chunks: int, at_once: int = REQUEST_CHUNKS) -> Iterator[list[GivenChunk]]:
    """Yield the chunks of each request, those of ten after another of one document."""
    for begin in range(first, first + chunks, at_once):
        numbers = range(begin, min(begin + at_once, first + chunks))
        yield [
            GivenChunk(prose(number, LETTERS), {"document_id": f"d{number // 10}"}, f"d{number // 10}", _vector(number))
            for number in numbers
        ]


def questions() -> Iterator[str]:
    return (prose(1_000_000 + number, QUESTION_LETTERS) for number in count())


def fill(bank: BankHere, chunks: int, first: int = 0) -> dict[str, float]:
    """Insert chunks, and return the processor time of each, and the growth of the memory after a first request."""
    spent_s, before_mb = 0.0, 0.0
    for some in requests(first, chunks):
        began_s = time.process_time()
        bank.insert(some)
        spent_s += time.process_time() - began_s
        before_mb = before_mb or memory_mb("VmRSS")
    peak_mb = memory_mb("VmHWM")
    return {"ms": spent_s / chunks * 1_000, "grown_mb": peak_mb - before_mb}


def fill_new(bank: BankHere, chunks: int) -> dict[str, float]:
    bank.make()
    return fill(bank, chunks)


def put_document(bank: BankHere, chunks: int) -> dict[str, float]:
    """Put one document of so many chunks, and return the processor time of each and the growth of the memory."""
    bank.make()
    fill(bank, REQUEST_CHUNKS)
    made = tuple(
        DocumentChunk("book", number, given.text, 550, given.metadata, array("f", given.vector or ()))
        for number, given in enumerate(each for some in requests(1_000, chunks) for each in some)
    )
    before_mb, began_s = memory_mb("VmRSS"), time.process_time()
    bank.folding.store(bank.ref, [BankChange("book", made)])
    spent_s = time.process_time() - began_s
    return {"ms": spent_s / chunks * 1_000, "grown_mb": memory_mb("VmHWM") - before_mb}


def search(bank: BankHere, _: int) -> dict[str, float]:
    """Return the times of the first search and of later ones, in milliseconds, and the memory that the bank takes."""
    texts, before_mb = questions(), memory_mb("VmRSS")
    began_s, began_wall_s = time.process_time(), time.perf_counter()
    bank.search(next(texts))
    first = {
        "first_ms": _ms_since(time.process_time, began_s),
        "first_wall_ms": _ms_since(time.perf_counter, began_wall_s),
    }
    grown_mb = memory_mb("VmRSS") - before_mb
    cpu_ms, wall_ms = searched(bank, texts, QUESTIONS, time.process_time)
    return {**first, "ms": cpu_ms, "wall_ms": wall_ms, "grown_mb": grown_mb}


def search_while_filled(bank: BankHere, chunks: int) -> dict[str, float]:
    """Return the processor time of searches, in milliseconds, quiet and while another thread inserts some chunks."""
    texts = questions()
    bank.search(next(texts))
    quiet_ms, quiet_wall_ms = searched(bank, texts, QUESTIONS, time.thread_time)
    given = list(requests(2_000_000, chunks, FEW_CHUNKS))

    def insert() -> None:
        for some in given:
            bank.insert(some)

    thread = threading.Thread(target=insert)
    thread.start()
    during: list[tuple[float, float]] = []
    while thread.is_alive():
        during.append(searched(bank, texts, 1, time.thread_time))
    cpu_ms, wall_ms = (median(each[index] for each in during) for index in (0, 1))
    return {
        "quiet_ms": quiet_ms,
        "quiet_wall_ms": quiet_wall_ms,
        "ms": cpu_ms,
        "wall_ms": wall_ms,
        "p90_ms": sorted(each[0] for each in during)[len(during) * 9 // 10],
        "searches": len(during),
    }


def searched(bank: BankHere, texts: Iterator[str], times: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the median of so many searches, in milliseconds: by this clock, and as it passed."""
    cpu, wall = [], []
    for _ in range(times):
        text = next(texts)
        began_s, began_wall_s = clock(), time.perf_counter()
        bank.search(text)
        cpu.append(_ms_since(clock, began_s))
        wall.append(_ms_since(time.perf_counter, began_wall_s))
    return median(cpu), median(wall)


def memory_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) / 1_024


def _ms_since(clock: Callable[[], float], began_s: float) -> float:
    return (clock() - began_s) * 1_000


ACTIONS: dict[str, Callable[[BankHere, int], dict[str, float]]] = {
    "fill": fill_new,
    "search": search,
    "search while filled": search_while_filled,
    "document": put_document,
}

if __name__ == "__main__":
    action, folder, chunks = sys.argv[1:]
    print(json.dumps(ACTIONS[action](BankHere(Path(folder)), int(chunks))))
