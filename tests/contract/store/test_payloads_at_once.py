"""The payloads of several records are fetched at the same time; each failure is that record's own.

Covers: store/layout/oversize, store/layout/blob_reads, store/layout/payloads
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import ContentLost, StoreUnavailable
from turnstone.ports.records import Get, Key, Put, Range
from turnstone.store.layout import blob_reads
from turnstone.store.layout.oversize import OversizeStore

COUNT = 20
LATENCY_S = 0.03
KEYS = [Key("p", f"{number:02d}") for number in range(COUNT)]


class SlowBlobs(FileBlobStore):
    """A blob store with latency, which counts the reads that run at the same time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.threads: set[int] = set()
        self.most = self.running = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        with self._lock:
            self.threads.add(threading.get_ident())
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(LATENCY_S)
        with self._lock:
            self.running -= 1
        return super().get(name)


@pytest.fixture
def blobs(tmp_path: Path) -> SlowBlobs:
    return SlowBlobs(tmp_path / "blobs")


@pytest.fixture
def store(tmp_path: Path, blobs: SlowBlobs) -> OversizeStore:
    made = OversizeStore(SqliteRangeStore(tmp_path / "records.db"), blobs)
    for key in KEYS:
        made.write([Put(key, key.sk.encode() + os.urandom(1_000), is_apart=True)])
    return made


def test_a_gather_fetches_up_to_eight_payloads_at_once(store: OversizeStore, blobs: SlowBlobs) -> None:
    records, _ = store.gather([Get(key) for key in KEYS], [])
    assert [record.body[:2].decode() for record in records if record] == [key.sk for key in KEYS]
    assert 1 < blobs.most <= blob_reads.THREADS
    assert len(blobs.threads) > 1


def test_a_page_fetches_its_payloads_at_once_in_order(store: OversizeStore, blobs: SlowBlobs) -> None:
    _, (page,) = store.gather([], [Range("p")])
    assert [record.key for record in page.records] == KEYS
    assert 1 < blobs.most <= blob_reads.THREADS


def test_one_payload_is_fetched_by_the_caller_itself(store: OversizeStore, blobs: SlowBlobs) -> None:
    store.gather([Get(KEYS[0])], [])
    assert blobs.threads == {threading.get_ident()}


def test_a_lost_payload_is_the_error_of_its_record_alone(store: OversizeStore, tmp_path: Path) -> None:
    (first, second), _ = store.gather([Get(KEYS[0]), Get(KEYS[1])], [])
    assert first is not None
    for file in (tmp_path / "blobs").rglob("*.blob"):
        if file.read_bytes() == first.body:
            file.unlink()
    (lost, whole), _ = store.gather([Get(KEYS[0]), Get(KEYS[1])], [])
    assert whole == second
    assert lost is not None
    with pytest.raises(ContentLost):
        _ = lost.body


def test_a_blob_store_that_fails_is_unavailable(store: OversizeStore, blobs: SlowBlobs) -> None:
    blobs.get = lambda name: (_ for _ in ()).throw(StoreUnavailable("gone"))  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="gone"):
        store.gather([Get(key) for key in KEYS], [])
    assert not [thread for thread in threading.enumerate() if thread.name == "payloads"]
