"""The part of the conformance suite in which threads meet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.stores.range_store_reads import read_all
from turnstone.domain.errors import Conflict
from turnstone.ports.records import Absent, Key, Operation, Put, Range, Record, RevIs
from turnstone.ports.storage import RangeStore


class RaceConformance:
    """Threads that write at the same time."""

    threads = 8
    rounds = 20
    most_attempts = 10_000

    def test_no_increment_is_lost_and_no_half_of_one_is_kept(self, store: RangeStore, pk: str) -> None:
        counter, twin = Key(pk, "counter"), Key(f"{pk}:twin", "counter")
        store.write([Put(counter, b"0"), Put(twin, b"0")])

        def increment(number: int) -> None:
            for turn in range(self.rounds):
                name = f"log:{number}-{turn}"
                assert any(self._increments(store, counter, twin, name) for _ in range(self.most_attempts))

        self._at_the_same_time(increment)
        total = self.threads * self.rounds
        body = str(total).encode()
        assert [Record(key, body, {}, total + 1) for key in (counter, twin)] == [store.get(counter), store.get(twin)]
        assert total == len(read_all(store, Range(pk, start="log:", end="log:~")))

    @staticmethod
    def _increments(store: RangeStore, counter: Key, twin: Key, name: str) -> bool:
        record = store.get(counter)
        assert record is not None
        body, when = str(int(record.body) + 1).encode(), (RevIs(record.rev),)
        logged = Put(Key(counter.pk, name), b"", {}, (Absent(),))
        return _wins(store, [Put(counter, body, {}, when), logged, Put(twin, body, {}, when)])

    def test_one_of_many_takes_what_is_free(self, store: RangeStore, pk: str) -> None:
        def take(number: int) -> list[bool]:
            return [_wins(store, [Put(Key(pk, f"{turn}"), b"", {}, (Absent(),))]) for turn in range(self.rounds)]

        assert [1] * self.rounds == [sum(wins) for wins in zip(*self._at_the_same_time(take), strict=True)]

    def test_reads_see_what_was_written_before_them(self, store: RangeStore, pk: str) -> None:
        written, done = [-1], threading.Event()
        key = Key(pk, "a")

        def write() -> None:
            for turn in range(self.rounds * 5):
                store.write([Put(key, str(turn).encode())])
                written[0] = turn

        def read() -> None:
            while not done.is_set():
                least = written[0]
                for seen in (store.get(key), *store.range(Range(pk)).records):
                    assert least <= (int(seen.body) if seen else -1)

        with ThreadPoolExecutor(self.threads) as pool:
            readers = [pool.submit(read) for _ in range(self.threads - 1)]
            try:
                write()
            finally:
                done.set()
            for reader in readers:
                reader.result()

    def _at_the_same_time(self, work: Callable[[int], Any]) -> list[Any]:
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(work, range(self.threads)))


def _wins(store: RangeStore, operations: list[Operation]) -> bool:
    try:
        store.write(operations)
    except Conflict:
        return False
    return True
