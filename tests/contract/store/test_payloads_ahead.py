"""Payloads that are read in pieces are fetched ahead of their reader, within a limit, each once for both readings.

Covers: store/layout/oversize, store/layout/blob_reads, store/sessions/sessions
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import ContentLost, StoreUnavailable
from turnstone.ports.records import Get, Key, Put, Range, Record
from turnstone.store.layout.blob_reads import THREADS
from turnstone.store.layout.oversize import OversizeStore

COUNT = 20
LATENCY_S = 0.03
SIZE_BYTES = 40_000
HELD_BYTES = 128 * 1024
KEYS = [Key("p", f"{number:02d}") for number in range(COUNT)]


class DistantBlobs(FileBlobStore):
    """A blob store each of whose reads is one slow request; counts them, and how many run at the same time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.requests: list[str] = []
        self.failing: set[int] = set()
        self.most = self.running = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        with self._lock:
            self.requests.append(name)
            number = len(self.requests)
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(LATENCY_S)
        with self._lock:
            self.running -= 1
        if number in self.failing:
            raise StoreUnavailable("the request failed")
        return super().get(name)

    def pieces(self, name: str) -> Iterator[bytes]:
        body = self.get(name)
        if body is None:
            raise LookupError(name)
        yield body


@pytest.fixture
def blobs(tmp_path: Path) -> DistantBlobs:
    return DistantBlobs(tmp_path / "blobs")


def body_of(key: Key) -> bytes:
    """Return a body that compresses to about half, and takes several pieces."""
    return key.sk.encode() * 100 + os.urandom(8) + bytes(SIZE_BYTES) + os.urandom(SIZE_BYTES)


@pytest.fixture
def bodies() -> dict[Key, bytes]:
    return {key: body_of(key) for key in KEYS}


@pytest.fixture
def records(tmp_path: Path, blobs: DistantBlobs, bodies: dict[Key, bytes]) -> Iterator[SqliteRangeStore]:
    made = SqliteRangeStore(tmp_path / "records.db")
    for key, body in bodies.items():
        OversizeStore(made, blobs).write([Put(key, body, is_apart=True)])
    yield made
    made.close()


def read_twice(found: Sequence[Record | None]) -> list[bytes]:
    """Read the records as a page of a session does: each is verified, then read again."""
    texts = []
    for record in found:
        assert record is not None
        assert record.pieces is not None
        texts.append(b"".join(record.pieces()))
    return texts


def page_of(store: OversizeStore) -> Sequence[Record]:
    return store.range(Range("p", held_bytes=HELD_BYTES)).records


def test_twenty_payloads_take_at_most_a_third_of_the_time(
    records: SqliteRangeStore, blobs: DistantBlobs, bodies: dict[Key, bytes]
) -> None:
    took = {}
    for ahead_bytes in (0, COUNT * SIZE_BYTES):
        blobs.requests.clear()
        began = time.monotonic()
        assert read_twice(page_of(OversizeStore(records, blobs, ahead_bytes))) == list(bodies.values())
        took[ahead_bytes] = time.monotonic() - began
        print(f"{ahead_bytes} bytes ahead: {took[ahead_bytes]:.3f} s, {len(blobs.requests)} requests")
    one_by_one, ahead = took.values()
    assert ahead <= one_by_one / 3
    assert len(blobs.requests) == COUNT, "one request serves both readings"
    assert 1 < blobs.most <= THREADS


def test_no_more_is_held_than_the_limit(records: SqliteRangeStore, blobs: DistantBlobs) -> None:
    room_for_two = 2 * SIZE_BYTES + SIZE_BYTES // 2
    read_twice(page_of(OversizeStore(records, blobs, room_for_two)))
    assert blobs.most == 2
    assert len(blobs.requests) == COUNT
    blobs.most = 0
    read_twice(page_of(OversizeStore(records, blobs, SIZE_BYTES // 2)))
    assert blobs.most == 1, "a payload that is larger than the limit is fetched alone"


def test_what_was_read_is_not_held(records: SqliteRangeStore, blobs: DistantBlobs) -> None:
    first, second, *_ = page_of(OversizeStore(records, blobs, 2 * SIZE_BYTES + SIZE_BYTES // 2))
    read_twice([first, second])
    before = len(blobs.requests)
    read_twice([first])
    assert len(blobs.requests) == before + 1


@pytest.mark.parametrize("is_backwards", [False, True])
def test_no_order_of_reading_causes_more_requests(
    records: SqliteRangeStore, blobs: DistantBlobs, bodies: dict[Key, bytes], is_backwards: bool
) -> None:
    store = OversizeStore(records, blobs, COUNT * SIZE_BYTES)
    found, _ = store.gather([Get(key, HELD_BYTES) for key in KEYS], [])
    order = -1 if is_backwards else 1
    assert read_twice(found[::order]) == list(bodies.values())[::order]
    assert len(blobs.requests) <= COUNT + (THREADS if is_backwards else 0)


def test_nothing_is_fetched_before_the_first_is_read(records: SqliteRangeStore, blobs: DistantBlobs) -> None:
    page_of(OversizeStore(records, blobs, COUNT * SIZE_BYTES))
    assert not blobs.requests


def test_a_failed_request_is_the_error_of_its_record_and_is_made_again(
    records: SqliteRangeStore, blobs: DistantBlobs, bodies: dict[Key, bytes]
) -> None:
    found = page_of(OversizeStore(records, blobs, COUNT * SIZE_BYTES))
    blobs.failing = {1}
    with pytest.raises(StoreUnavailable, match="the request failed"):
        read_twice(found[:1])
    assert read_twice(found) == list(bodies.values())


def test_a_lost_payload_is_the_error_of_its_record_alone(
    records: SqliteRangeStore, blobs: DistantBlobs, bodies: dict[Key, bytes], tmp_path: Path
) -> None:
    found = page_of(OversizeStore(records, blobs, COUNT * SIZE_BYTES))
    read_twice(found[:1])
    files = {file.stem: file for file in (tmp_path / "blobs").rglob("*.blob")}
    files[blobs.requests[0].rpartition("/")[2]].unlink()
    lost, *others = page_of(OversizeStore(records, blobs, COUNT * SIZE_BYTES))
    with pytest.raises(ContentLost):
        read_twice([lost])
    assert read_twice(others) == list(bodies.values())[1:]


def test_a_replaced_record_is_read_in_its_new_form(
    records: SqliteRangeStore, blobs: DistantBlobs, bodies: dict[Key, bytes]
) -> None:
    store = OversizeStore(records, blobs, COUNT * SIZE_BYTES)
    found = page_of(store)
    old = sorted(blobs._folder.rglob("*.blob"), key=lambda file: file.stat().st_mtime_ns)
    new = body_of(KEYS[3])
    store.write([Put(KEYS[3], new, is_apart=True)])
    old[3].unlink()
    texts = read_twice(found)
    assert texts[3] == new
    assert texts[:3] + texts[4:] == [bodies[key] for key in KEYS if key != KEYS[3]]
