"""A write to SQLite is acknowledged once it is synced: writers share the sync, and a failed sync is repeated.

Covers: adapters/sqlite/sqlite, adapters/sqlite/sqlite_log
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.server.servers import wait_until
from turnstone.adapters.sqlite import sqlite_log
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports.records import Absent, Key, Put, Record

A, B, C = (Key("p", sk) for sk in "abc")
PATIENCE_S = 10.0


class Disk:
    """Counts the syncs; it can block them, and can fail one as a disk does."""

    def __init__(self) -> None:
        self.waits = 0
        self.files: set[tuple[int, int]] = set()
        self.fails_next = False
        self._free = threading.Event()
        self._free.set()
        self._sync = sqlite_log.sync_data

    def sync_data(self, descriptor: int) -> None:
        self.waits += 1
        status = os.fstat(descriptor)
        self.files.add((status.st_dev, status.st_ino))
        fails, self.fails_next = self.fails_next, False
        assert self._free.wait(PATIENCE_S)
        if fails:
            raise OSError(errno.EIO, "no such luck")
        self._sync(descriptor)

    def hold(self) -> None:
        self._free.clear()

    def release(self) -> None:
        self._free.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(sqlite_log, "sync_data", disk.sync_data)
    yield disk
    disk.release()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turnstone.db"


@pytest.fixture
def store(path: Path, disk: Disk) -> Iterator[SqliteRangeStore]:
    store = _at_work(path)
    disk.waits = 0
    yield store
    disk.release()
    store.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_writers_during_a_sync_share_the_next_one(
    store: SqliteRangeStore, disk: Disk, pool: ThreadPoolExecutor
) -> None:
    disk.hold()
    keys = [Key("p", f"{number}") for number in range(8)]
    first = _blocked(pool, disk, lambda: store.write([Put(keys[0], b"")]))
    others = [pool.submit(store.write, [Put(key, b"")]) for key in keys[1:]]
    wait_until(lambda: all(store.get(key) for key in keys), PATIENCE_S, "the others did not write during the sync")
    assert not any(write.done() for write in (first, *others))
    disk.release()
    for write in (first, *others):
        write.result(PATIENCE_S)
    assert disk.waits == 2


def test_each_of_two_stores_syncs_its_own_writes(store: SqliteRangeStore, disk: Disk, path: Path) -> None:
    log = path.with_name(f"{path.name}-wal").stat()
    with closing(_at_work(path)) as other:
        disk.waits = 0
        store.write([Put(A, b"")])
        other.write([Put(B, b"")])
        assert (disk.waits, disk.files) == (2, {(log.st_dev, log.st_ino)})


def test_the_log_of_a_dead_process_is_synced_before_another_reads_it(
    store: SqliteRangeStore, disk: Disk, path: Path
) -> None:
    with closing(SqliteRangeStore(path)):
        assert disk.waits == 1


def test_the_first_write_repeats_a_failed_sync_of_an_old_log(store: SqliteRangeStore, disk: Disk, path: Path) -> None:
    disk.fails_next = True
    with closing(SqliteRangeStore(path)) as other:
        other.write([Put(A, b"")])
        assert disk.waits == len(("opened", "written again", "written"))


def test_a_write_through_a_link_syncs_the_linked_file(disk: Disk, path: Path, tmp_path: Path) -> None:
    SqliteRangeStore(path).close()
    link = tmp_path / "elsewhere" / "linked.db"
    link.parent.mkdir()
    link.symlink_to(path)
    link.with_name(f"{link.name}-wal").touch()
    disk.files.clear()
    with closing(SqliteRangeStore(link)) as linked:
        linked.write([Put(A, b"")])
        log = path.with_name(f"{path.name}-wal").stat()
        assert disk.files == {(log.st_dev, log.st_ino)}


def test_a_conflict_is_raised_only_after_the_found_record_is_synced(
    store: SqliteRangeStore, disk: Disk, path: Path, pool: ThreadPoolExecutor
) -> None:
    with closing(_at_work(path)) as other:
        disk.hold()
        first = _blocked(pool, disk, lambda: other.write([Put(A, b"first")]))
        late = _blocked(pool, disk, lambda: store.write([Put(A, b"late", {}, (Absent(),))]))
        assert not late.done()
        disk.release()
        first.result(PATIENCE_S)
        conflict = late.exception(PATIENCE_S)
    assert isinstance(conflict, Conflict)
    assert conflict.found == Record(A, b"first", {}, 1)


def test_a_write_that_waits_too_long_behind_a_sync_is_unavailable(
    store: SqliteRangeStore, disk: Disk, pool: ThreadPoolExecutor
) -> None:
    store._file._wait_s = 0.05
    disk.hold()
    first = _blocked(pool, disk, lambda: store.write([Put(A, b"")]))
    with pytest.raises(StoreUnavailable, match="too long"):
        pool.submit(store.write, [Put(B, b"")]).result(PATIENCE_S / 2)
    disk.release()
    first.result(PATIENCE_S)


def test_a_failed_sync_fails_every_write_that_waited_for_it(
    store: SqliteRangeStore, disk: Disk, pool: ThreadPoolExecutor
) -> None:
    disk.hold()
    disk.fails_next = True
    first = _blocked(pool, disk, lambda: store.write([Put(A, b"")]))
    late = pool.submit(store.write, [Put(B, b"")])
    wait_until(lambda: store.get(B) is not None, PATIENCE_S, "the second did not write")
    disk.release()
    for write in (first, late):
        assert isinstance(write.exception(PATIENCE_S), StoreUnavailable)
    assert disk.waits == 1


def test_closing_waits_for_writes_that_wait_for_a_sync(
    store: SqliteRangeStore, disk: Disk, pool: ThreadPoolExecutor
) -> None:
    disk.hold()
    write = _blocked(pool, disk, lambda: store.write([Put(A, b"")]))
    closing_ = pool.submit(store.close)
    with pytest.raises(TimeoutError):
        closing_.result(0.2)
    disk.release()
    write.result(PATIENCE_S)
    closing_.result(PATIENCE_S)


def test_a_read_waits_for_no_sync(store: SqliteRangeStore, disk: Disk) -> None:
    store.write([Put(A, b"")])
    disk.hold()
    assert store.get(A) is not None
    assert disk.waits == 1


def test_a_file_that_another_program_took_out_of_its_mode_is_brought_back(
    store: SqliteRangeStore, path: Path, disk: Disk
) -> None:
    store.write([Put(A, b"a")])
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    with closing(SqliteRangeStore(path)) as again:
        disk.waits = 0
        again.write([Put(B, b"b")])
        assert disk.waits == len(("written again", "written"))
        assert again.get(A) is not None


def _at_work(path: Path) -> SqliteRangeStore:
    """Return a store after its first write, which writes the whole log again."""
    store = SqliteRangeStore(path)
    store.write([Put(Key("p", "first"), b"")])
    return store


def _blocked(pool: ThreadPoolExecutor, disk: Disk, write: Callable[[], None]) -> Future[None]:
    waits = disk.waits
    future = pool.submit(write)
    wait_until(lambda: disk.waits > waits, PATIENCE_S, "it did not wait for the disk")
    return future
