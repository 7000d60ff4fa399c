"""SqliteRangeStore, composed as it is served: the laws of every RangeStore, and damage to its files.

Covers: adapters/sqlite/sqlite, adapters/sqlite/sqlite_file, adapters/sqlite/sqlite_rows,
  adapters/sqlite/sqlite_writes, adapters/sqlite/reserve, adapters/sqlite/folder_lock
"""

from __future__ import annotations

import fcntl
import gc
import os
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.server.servers import wait_until
from tests.support.stores.range_store_suite import RangeStoreConformance
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.reserve import RESERVE_BYTES, Reserve, ReservingBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.adapters.sqlite.sqlite_file import SCHEMA_VERSION, SqliteFile
from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports.records import Absent, AttributeIs, Delete, Key, Put, Range, Record, RevIs, Update
from turnstone.store.layout.oversize import OversizeStore

A, B, C = (Key("p", sk) for sk in "abc")


class TestSqliteConformance(RangeStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[OversizeStore]:
        sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
        yield OversizeStore(sqlite, FileBlobStore(tmp_path / "blobs"))
        sqlite.close()


class SmallFile(SqliteFile):
    """A file on a disk that is full after 256 KB."""

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = super().connect(path)
        connection.execute("PRAGMA max_page_count = 64")
        return connection


class ReadOnlyFile(SqliteFile):
    """A file that may only be read."""

    def connect(self, path: Path) -> sqlite3.Connection:
        uri = f"{path.as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


class LockedFile(ReadOnlyFile):
    """A file that may only be read, until it is unlocked."""

    is_locked = True

    def connect(self, path: Path) -> sqlite3.Connection:
        return super().connect(path) if self.is_locked else SqliteFile.connect(self, path)


class StoreOnDisk(SqliteRangeStore):
    """A store on the given disk."""

    def __init__(self, file: SqliteFile, reserve: Reserve | None = None) -> None:
        self._file = file
        self._reserve = reserve


@contextmanager
def queued(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock that writers queue on, as another process does; yield the function that releases it."""
    path.parent.mkdir(exist_ok=True)
    queue = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(queue, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(queue, fcntl.LOCK_UN)
    finally:
        os.close(queue)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "turnstone.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteRangeStore]:
    store = SqliteRangeStore(path)
    yield store
    store.close()


def test_the_files_are_for_their_owner_only(store: SqliteRangeStore, path: Path) -> None:
    store.write([Put(A, b"a conversation")])
    modes = {file.name: stat.filemode(file.stat().st_mode) for file in [path.parent, *path.parent.iterdir()]}
    private = dict.fromkeys(["turnstone.db", "turnstone.db-wal", "turnstone.db-shm"], "-rw-------")
    assert {"data": "drwx------", **private} == modes


def test_written_records_are_there_after_opening_again(store: SqliteRangeStore, path: Path) -> None:
    store.write([Put(A, b"a", {"open": "0"})], nonce="mine")
    store.close()
    again = SqliteRangeStore(path)
    again.write([Put(A, b"a", {}, (Absent(),))], nonce="mine")
    assert (Record(A, b"a", {"open": "0"}, 1), (A,)) == (again.get(A), again.open_keys("0", 9).keys)
    again.close()


def test_a_removed_file_is_not_created_again(store: SqliteRangeStore, path: Path) -> None:
    path.unlink()
    with pytest.raises(StoreUnavailable):
        store.get(A)
    assert not path.exists()


def test_two_stores_on_one_file_see_and_guard_each_other(store: SqliteRangeStore, path: Path) -> None:
    other = SqliteRangeStore(path)
    store.write([Put(A, b"0")])
    assert Record(A, b"0", {}, 1) == other.get(A)

    def increment(mine: SqliteRangeStore) -> None:
        done = 0
        while done < 100:
            record = mine.get(A)
            assert record is not None
            try:
                mine.write([Put(A, str(int(record.body) + 1).encode(), {}, (RevIs(record.rev),))])
                done += 1
            except Conflict:
                continue

    with ThreadPoolExecutor() as pool:
        list(pool.map(increment, [store, other, store, other]))
    assert Record(A, b"400", {}, 401) == store.get(A)
    other.close()


def test_two_stores_on_one_file_guard_their_changes(store: SqliteRangeStore, path: Path) -> None:
    other = SqliteRangeStore(path)
    store.write([Put(A, b"", {"n": 0})])

    def increment(mine: SqliteRangeStore) -> None:
        done = 0
        while done < 100:
            record = mine.get(A)
            assert record is not None
            number = record.attributes["n"]
            assert isinstance(number, int)
            try:
                mine.write([Update(A, {"n": number + 1}, (AttributeIs("n", number),))])
                done += 1
            except Conflict:
                continue

    with ThreadPoolExecutor() as pool:
        list(pool.map(increment, [store, other, store, other]))
    assert Record(A, b"", {"n": 400}, 1) == store.get(A)
    other.close()


def test_a_new_file_may_be_opened_by_many_at_once(tmp_path: Path) -> None:
    starting = threading.Barrier(6)

    def open_and_write(path: Path, number: int) -> None:
        starting.wait()
        store = SqliteRangeStore(path)
        store.write([Put(Key("p", f"{number}"), b"")])
        store.close()

    for attempt in range(20):
        path = tmp_path / f"{attempt} 50%41?mode=ro#.db"
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(open_and_write, [path] * 6, range(6)))
        store = SqliteRangeStore(path)
        assert path.exists()
        assert list("012345") == [record.key.sk for record in store.range(Range("p")).records]
        store.close()


def test_opening_waits_for_another_process_that_is_preparing_the_file(path: Path) -> None:
    with queued(path) as release:
        later = threading.Timer(0.05, release)
        later.start()
        SqliteRangeStore(path).close()
        later.join()


def test_opening_does_not_wait_forever_for_another_process_that_is_preparing_the_file(path: Path) -> None:
    with queued(path), pytest.raises(StoreUnavailable, match="another process"):
        SqliteRangeStore(path, wait_s=0.05)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("left", ["turnstone.db-wal", "turnstone.db-shm", "turnstone.reserve", "blobs/a/b.blob"])
def test_a_missing_database_beside_its_other_files_is_not_created_again(left: str, path: Path) -> None:
    (path.parent / left).parent.mkdir(parents=True)
    (path.parent / left).write_bytes(b"left")
    with pytest.raises(StoreUnavailable, match=r"missing.*restore a backup.*remove the folder"):
        SqliteRangeStore(path)
    assert not path.exists()


def test_an_emptied_database_is_not_created_again(path: Path) -> None:
    SqliteRangeStore(path).close()
    os.truncate(path, 0)
    with pytest.raises(StoreUnavailable, match=r"empty.*restore a backup"):
        SqliteRangeStore(path)
    assert path.stat().st_size == 0


def test_a_database_beside_an_empty_folder_of_payloads_is_created(path: Path) -> None:
    (path.parent / "blobs" / "a").mkdir(parents=True)
    SqliteRangeStore(path).close()


def test_a_torn_page_is_named_with_a_remedy(path: Path) -> None:
    with closing(SqliteRangeStore(path)) as store:
        store.write([Put(Key("p", f"{number:03}"), b"x" * 700) for number in range(100)])
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(path.stat().st_size - 4096))
    with closing(SqliteRangeStore(path)) as store:
        for read in (lambda: store.get(Key("p", "050")), lambda: store.range(Range("p"))):
            with pytest.raises(StoreUnavailable, match=r"is damaged .*restore a backup"):
                read()


def test_a_full_disk_fails_the_whole_write_and_recovers_with_space(path: Path) -> None:
    store = StoreOnDisk(SmallFile(path))
    kept = [Record(Key("p", f"{number}"), b"x" * 20_000, {}, 1) for number in range(8)]
    for record in kept:
        store.write([Put(record.key, record.body)])
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="full"):
            store.write([Put(A, b"half"), Delete(kept[0].key), Put(B, b"x" * 200_000)])
        assert kept == list(store.range(Range("p")).records)
    store.write([Delete(kept[0].key), Put(A, b"whole"), Put(B, b"x" * 20_000)])
    assert Record(A, b"whole", {}, 1) == store.get(A)
    store.close()


def test_a_read_only_file_is_read_and_not_written(store: SqliteRangeStore, path: Path) -> None:
    store.write([Put(A, b"a")])
    read_only = StoreOnDisk(ReadOnlyFile(path))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="readonly"):
            read_only.write([Put(A, b"new")])
    assert Record(A, b"a", {}, 1) == read_only.get(A)
    read_only.close()


def test_a_file_that_could_only_be_read_is_written_as_soon_as_it_may_be(store: SqliteRangeStore, path: Path) -> None:
    store.write([Put(A, b"a")])
    locked = LockedFile(path)
    reopened = StoreOnDisk(locked)
    assert reopened.get(A) == store.get(A)
    with pytest.raises(StoreUnavailable, match="readonly"):
        reopened.write([Put(A, b"new")])
    locked.is_locked = False
    reopened.write([Put(A, b"new")])
    assert Record(A, b"new", {}, 1) == reopened.get(A) == store.get(A)
    reopened.close()


def test_an_error_within_a_write_undoes_it(store: SqliteRangeStore) -> None:
    no_utf8 = Put(B, b"", {"status": "\ud800"})
    with pytest.raises(ValueError, match="surrogates"):
        store.write([Put(A, b"half"), no_utf8])
    store.write([Put(C, b"c")])
    assert (Record(C, b"c", {}, 1),) == store.range(Range("p")).records


def test_a_file_locked_by_another_process_is_unavailable_until_it_is_released(path: Path) -> None:
    store = SqliteRangeStore(path, wait_s=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        store.write([Put(A, b"")])
    assert store.get(A) is None
    other.execute("ROLLBACK")
    other.close()
    store.write([Put(A, b"")])
    store.close()


def test_a_write_does_not_wait_forever_for_another_thread(path: Path) -> None:
    with closing(SqliteRangeStore(path, wait_s=0.05)) as store:
        with store._file.writing(), ThreadPoolExecutor() as pool:
            late = pool.submit(store.write, [Put(A, b"")])
            assert isinstance(late.exception(), StoreUnavailable)
        store.write([Put(A, b"")])


def test_a_write_waits_for_those_of_other_processes_and_continues_once_they_are_done(
    store: SqliteRangeStore, path: Path
) -> None:
    queue = os.open(path.parent, os.O_RDONLY)
    with ThreadPoolExecutor(1) as pool:
        fcntl.flock(queue, fcntl.LOCK_EX)
        late = pool.submit(store.write, [Put(A, b"")])
        with pytest.raises(TimeoutError):
            late.result(0.1)
        assert store.get(A) is None
        os.close(queue)
        late.result(10)
    assert store.get(A) is not None


def test_a_write_does_not_wait_forever_for_another_process(path: Path) -> None:
    with closing(SqliteRangeStore(path, wait_s=0.1)) as store, queued(path):
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="another process"):
                store.write([Put(A, b"")])
            assert 0.1 <= time.monotonic() - began < 5
        assert store.get(A) is None


def test_a_write_takes_over_the_queue_position_of_one_that_timed_out(path: Path) -> None:
    with closing(SqliteRangeStore(path, wait_s=0.1)) as store, ThreadPoolExecutor(1) as pool:
        with queued(path):
            with pytest.raises(StoreUnavailable):
                store.write([Put(A, b"")])
            store._file._wait_s = 10.0
            late = pool.submit(store.write, [Put(A, b"")])
            wait_until(lambda: store._file._queue._waiter._is_awaited, 10, "the write does not wait")
        late.result(10)
        assert store.get(A) is not None


def test_a_lock_acquired_after_the_last_waiter_timed_out_is_released(path: Path) -> None:
    with closing(SqliteRangeStore(path, wait_s=0.05)) as store, closing(SqliteRangeStore(path)) as other:
        with queued(path), pytest.raises(StoreUnavailable):
            store.write([Put(A, b"")])
        wait_until(lambda: not store._file._queue._waiter._is_waiting, 10, "the lock does not come")
        other.write([Put(B, b"")])
        store._file._wait_s = 10.0
        store.write([Put(A, b"")])


def test_a_store_is_closed_while_another_process_has_the_lock(path: Path) -> None:
    store = SqliteRangeStore(path, wait_s=0.05)
    with queued(path) as release:
        with pytest.raises(StoreUnavailable):
            store.write([Put(A, b"")])
        store.close()
        release()
        with closing(SqliteRangeStore(path)) as again:
            again.write([Put(A, b"")])


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    newer = sqlite3.connect(path, isolation_level=None)
    newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreUnavailable, match=f"schema {SCHEMA_VERSION + 1}.*run the newer Turnstone"):
        SqliteRangeStore(path)
    assert not newer.execute("SELECT * FROM sqlite_schema").fetchall()
    newer.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("these are not the bytes of a database\n" * 100)
    for path in (tmp_path / "text", tmp_path, tmp_path / "text" / "turnstone.db"):
        with pytest.raises(StoreUnavailable):
            SqliteRangeStore(path)


def test_a_full_page_has_a_continuation(store: SqliteRangeStore) -> None:
    store.write([Put(Key("p", f"{number}"), b"x" * 300_000) for number in range(8)])
    pages = [store.range(query) for query in (Range("p", limit=2), Range("p", limit=1, start="7"), Range("p"))]
    assert [page.after for page in pages] == ["1", "7", "3"]
    assert store.range(Range("p", limit=2, start="7")).after is None
    assert store.open_keys("0", 1).after is None


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_of_nothing_is_a_programming_error(store: SqliteRangeStore, limit: int) -> None:
    with pytest.raises(ValueError):
        store.range(Range("p", limit=limit))
    with pytest.raises(ValueError):
        store.open_keys("0", limit)


def test_attributes_that_records_have_in_common_cannot_be_changed_through_one_of_them(store: SqliteRangeStore) -> None:
    store.write([Put(A, b"1", {"status": "open"}), Put(B, b"2", {"status": "open"})])
    record = store.get(A)
    assert record is not None
    with pytest.raises(TypeError):
        record.attributes["status"] = "closed"  # type: ignore[index]
    assert [found.attributes for found in store.range(Range("p")).records] == [{"status": "open"}] * 2


@pytest.mark.parametrize("shard", ["", 7])
def test_a_shard_is_a_name(store: SqliteRangeStore, shard: str | int) -> None:
    with pytest.raises(ValueError, match="open"):
        store.write([Put(A, b"", {"open": shard})])


def test_a_closed_store_is_unavailable(store: SqliteRangeStore) -> None:
    store.get(A)
    store.close()
    store.close()
    for call in (lambda: store.get(A), lambda: store.range(Range("p")), lambda: store.write([Put(A, b"")])):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


@pytest.mark.skipif(sys.platform != "linux", reason="open descriptors are listed as Linux does")
def test_a_store_without_a_close_leaves_nothing_open(path: Path) -> None:
    def opened() -> list[str]:
        gc.collect()
        descriptors = Path("/proc/self/fd").iterdir()
        return [to for one in descriptors if str(path.parent) in (to := os.readlink(one) if one.is_symlink() else "")]

    store = SqliteRangeStore(path)
    store.write([Put(A, b"")])
    assert len(opened()) > 2
    del store
    assert opened() == []


def test_closing_lets_running_calls_finish(path: Path) -> None:
    store = SqliteRangeStore(path)
    under_way = threading.Event()

    def use() -> None:
        for _ in range(1_000_000):
            store.write([Put(A, b"1")])
            assert store.get(A) is not None
            under_way.set()

    with ThreadPoolExecutor(4) as pool:
        users = [pool.submit(use) for _ in range(4)]
        assert under_way.wait(timeout=5)
        store.close()
        assert [StoreUnavailable] * 4 == [type(user.exception()) for user in users]
    assert not list(path.parent.glob("*-wal"))


def test_expired_idempotency_records_are_dropped_and_no_others(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    over, later = int(now.timestamp()), int(now.timestamp()) + 1
    with closing(SqliteRangeStore(tmp_path / "a.db")) as store:
        gone = [Key("local|idempotency:a", "#"), Key("local|session:a:s", "idempotency:b")]
        kept = [Key("local|idempotency:c", "#"), Key("local|session:a:s", "turn:1"), Key("local|session:a:s", "ctx:~")]
        ends = [over, over, later, over]
        store.write([Put(key, b"{}", {"ttl": end}) for key, end in zip([*gone, *kept], ends, strict=False)])
        store.write([Put(kept[2], b"{}")])
        assert store.drop_expired(now) == 2
        assert [store.get(key) for key in gone] == [None, None]
        assert None not in [store.get(key) for key in kept]
        assert store.drop_expired(now) == 0


class InterruptedFile(SqliteFile):
    """A file whose next write is preceded by another action."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.acts: list[Callable[[], None]] = []

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        if self.acts:
            self.acts.pop()()
        with super().writing() as connection:
            yield connection


def test_a_record_renewed_between_the_check_and_the_removal_is_kept(path: Path) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    key = Key("local|idempotency:a", "#")
    file = InterruptedFile(path)
    with closing(StoreOnDisk(file)) as store, closing(SqliteRangeStore(path)) as other:
        store.write([Put(key, b"old", {"ttl": int(now.timestamp())})])
        file.acts.append(lambda: other.write([Put(key, b"new", {"ttl": int(now.timestamp()) + 1}, (RevIs(1),))]))
        store.drop_expired(now)
        found = store.get(key)
        assert found is not None
        assert found.body == b"new"


class RoomyReserve(Reserve):
    """A reserve without which a small file has room for 128 KB more."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self.was_released = False

    def leaves_room(self) -> bool:
        return not self.was_released

    def try_release(self) -> bool:
        is_first, self.was_released = not self.was_released, True
        self._file._writer.execute("PRAGMA max_page_count = 96")
        return is_first


def test_the_reserve_is_released_for_a_deletion_without_room_and_for_no_other_write(path: Path) -> None:
    file = SmallFile(path)
    reserve = RoomyReserve(file)
    with closing(StoreOnDisk(file, reserve)) as store:
        store.write([Put(A, b"a"), Put(B, b"b")])
        while True:
            try:
                store.write([Put(Key("q", f"{time.monotonic_ns()}"), b"x" * 3_000)])
            except StoreUnavailable:
                break
        assert not reserve.was_released
        job = Put(C, b"x" * 50_000)
        store.write([Delete(A), job])
        assert (reserve.was_released, store.get(A), store.get(C) is not None) == (True, None, True)
        with pytest.raises(StoreUnavailable, match="deletions only"):
            store.write([Put(B, b"small")])
        store.write([Delete(B)])
        assert store.get(B) is None


def test_a_reserve_is_made_released_once_and_made_again(tmp_path: Path) -> None:
    reserve, other = Reserve(tmp_path), Reserve(tmp_path)
    assert reserve.leaves_room()
    (file,) = tmp_path.iterdir()
    assert (file.stat().st_size, stat.filemode(file.stat().st_mode)) == (RESERVE_BYTES, "-rw-------")
    assert (other.try_release(), reserve.try_release()) == (True, False)
    file.touch()  # as a restore leaves it
    assert reserve.try_make()
    assert file.stat().st_size == RESERVE_BYTES


def test_a_disk_that_can_hold_no_reserve_is_still_written(tmp_path: Path) -> None:
    (tmp_path / "turnstone.reserve").mkdir()
    with closing(SqliteRangeStore(tmp_path / "turnstone.db.d" / "turnstone.db", 5.0, Reserve(tmp_path))) as store:
        store.write([Put(A, b"")])
        assert store.get(A) is not None


def test_a_payload_is_not_stored_in_the_room_of_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = Reserve(tmp_path)
    blobs = ReservingBlobStore(FileBlobStore(tmp_path / "blobs"), reserve)
    monkeypatch.setattr(reserve, "_has_room", lambda: False)
    with pytest.raises(StoreUnavailable, match="deletions only"):
        blobs.put("a", b"")
    monkeypatch.undo()
    blobs.put("a", b"payload")
    assert (blobs.get("a"), reserve.try_release()) == (b"payload", True)


def test_nothing_is_written_to_a_database_that_was_removed_or_replaced(tmp_path: Path) -> None:
    with closing(SqliteRangeStore(tmp_path / "turnstone.db")) as store:
        store.write([Put(Key("p", "a"), b"before")])
        (tmp_path / "turnstone.db").rename(tmp_path / "elsewhere.db")
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            store.write([Put(Key("p", "b"), b"lost")])
        (tmp_path / "turnstone.db").write_bytes(b"another file")
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            store.write([Put(Key("p", "b"), b"lost")])
        (tmp_path / "elsewhere.db").replace(tmp_path / "turnstone.db")
        store.write([Put(Key("p", "b"), b"kept")])
