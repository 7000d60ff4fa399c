"""A disk that reports success after a failure holds a whole database, with every acknowledged write, at any moment.

Covers: adapters/sqlite/sqlite_log, adapters/sqlite/sqlite_failures
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from turnstone.adapters.sqlite import sqlite_log
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import StoreUnavailable
from turnstone.ports.records import Key, Put

PIECE_BYTES = 512
KEPT = [Key("p", f"{number:02}") for number in range(40)]
UNKNOWN = [Key("p", f"{number:02} unknown") for number in range(40)]
LATER = Key("p", "later")


class FailingDisk:
    """The synced part of a log. It drops writes that it failed to sync, and later syncs of them succeed falsely."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.fails = 0
        self.waits = 0
        self._losses = 0
        self._acknowledged: list[Key] = []
        self._has: dict[int, bytes] = {}
        self._dropped: dict[int, bytes] = {}

    def sync_data(self, _: int) -> None:
        self.waits += 1
        self.lose_power()
        pieces = self._pieces()
        if self.fails:
            self.fails -= 1
            self._dropped |= {number: piece for number, piece in pieces.items() if self._has.get(number) != piece}
            raise OSError(errno.EIO, "no such luck")
        self._has |= {number: piece for number, piece in pieces.items() if self._dropped.get(number) != piece}

    def take(self, offset: int, data: bytes) -> None:
        for number in range(offset // PIECE_BYTES, (offset + len(data) - 1) // PIECE_BYTES + 1):
            self._dropped.pop(number, None)

    def acknowledge(self, *keys: Key) -> None:
        self._acknowledged.extend(keys)
        self.lose_power()

    def lose_power(self) -> None:
        """Assert that a loss of power now leaves a whole database: its file, and the synced part of its log."""
        self._losses += 1
        left = self.database.with_name(f"left-{self._losses}.db")
        shutil.copy(self.database, left)
        pieces = (self._has.get(number, bytes(PIECE_BYTES)) for number in range(max(self._has, default=-1) + 1))
        left.with_name(f"{left.name}-wal").write_bytes(b"".join(pieces))
        with closing(sqlite3.connect(left)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            found = {Key(*row) for row in connection.execute("SELECT pk, sk FROM items")}
        assert set(self._acknowledged) <= found

    def _pieces(self) -> dict[int, bytes]:
        log = self.database.with_name(f"{self.database.name}-wal").read_bytes()
        return {at // PIECE_BYTES: log[at : at + PIECE_BYTES] for at in range(0, len(log), PIECE_BYTES)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with some of its pages in its log, and most not."""
    path = tmp_path / "turnstone.db"
    with closing(SqliteRangeStore(path)) as store:
        store.write([Put(key, b"x" * 700) for key in KEPT])
    return path


@pytest.fixture
def disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    disk, write = FailingDisk(path), os.pwrite

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        disk.take(offset, data)
        return write(descriptor, data, offset)

    monkeypatch.setattr(sqlite_log, "sync_data", disk.sync_data)
    monkeypatch.setattr(os, "pwrite", pwrite)
    return disk


@pytest.fixture
def store(path: Path, disk: FailingDisk) -> Iterator[SqliteRangeStore]:
    with closing(SqliteRangeStore(path)) as store:
        store.write([Put(KEPT[0], b"y")])
        disk.acknowledge(*KEPT)
        disk.fails = 1
        with pytest.raises(StoreUnavailable, match="no such luck"):
            store.write([Put(key, b"x" * 900) for key in UNKNOWN])
        yield store


def test_dropped_writes_are_written_again_before_any_other_is_acknowledged(
    store: SqliteRangeStore, disk: FailingDisk
) -> None:
    store.write([Put(LATER, b"")])
    disk.acknowledge(*UNKNOWN, LATER)
    store.write([Put(LATER, b"again")])
    disk.acknowledge()
    assert disk.waits == len(("opened", "doubted", "first", "failed", "written again", "later", "again"))


def test_while_the_disk_fails_again_nothing_is_written(store: SqliteRangeStore, disk: FailingDisk) -> None:
    disk.fails = 2
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.write([Put(LATER, b"")])
        assert store.get(LATER) is None
    store.write([Put(LATER, b"")])
    disk.acknowledge(*UNKNOWN, LATER)


def test_a_log_in_use_by_a_reader_is_written_again(store: SqliteRangeStore, disk: FailingDisk, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT * FROM items").fetchall()
        store.write([Put(LATER, b"")])
        disk.acknowledge(*UNKNOWN, LATER)
        assert reader.execute("SELECT * FROM items").fetchall() == before


def test_a_store_that_opens_a_log_after_a_failed_sync_writes_it_again(
    store: SqliteRangeStore, disk: FailingDisk, path: Path
) -> None:
    with closing(SqliteRangeStore(path)) as other:
        other.write([Put(LATER, b"")])
        disk.acknowledge(*UNKNOWN, LATER)


def test_the_log_is_written_again_also_after_the_file_was_read_only(
    store: SqliteRangeStore, disk: FailingDisk, path: Path
) -> None:
    with closing(SqliteRangeStore(path)):  # while a connection is open, the log is not moved into the database
        store._file._was_read_only = True  # as after a write to a file system that the failure made read-only
        store.write([Put(LATER, b"")])
        disk.acknowledge(*UNKNOWN, LATER)
