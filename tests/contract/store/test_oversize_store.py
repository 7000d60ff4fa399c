"""The stored forms of OversizeStore, and its handling of lost or changed payloads. Its other laws: the suite.

Covers: store/layout/oversize
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.stores.range_store_reads import noise, read_all
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.errors import Conflict, ContentLost, RecordTooNew, StoreUnavailable
from turnstone.ports.records import Absent, Get, Key, Operation, Put, Range, Record, RecordPage, RevIs, Update
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.oversize import OversizeStore

A, B = Key("p", "a"), Key("p", "b")
LARGE = noise(400_000)
# Compressible, and still too large for a record when compressed.
HUGE = noise(400_000) * 2 + b"0" * 400_000


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[SqliteRangeStore]:
    inner = SqliteRangeStore(tmp_path / "turnstone.db")
    yield inner
    inner.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def store(inner: SqliteRangeStore, folder: Path) -> OversizeStore:
    return OversizeStore(inner, FileBlobStore(folder))


@pytest.mark.parametrize(
    ("body", "codec", "most_bytes"),
    [
        (b"x" * 768, None, 768),
        (b"x" * 769, "zlib", 100),
        (noise(1025), None, 1025),
        (noise(350 * 1024), None, 350 * 1024),
        (noise(350 * 1024 + 1), "blob", 300),
        (b"text " * 1_000_000, "zlib", 10_000),
        (HUGE, "zlib+blob", 300),
    ],
    ids=["short", "text", "noise", "just fits", "too large", "long text", "large after compression"],
)
def test_the_form_a_body_is_stored_in(
    store: OversizeStore, inner: SqliteRangeStore, body: bytes, codec: str | None, most_bytes: int
) -> None:
    store.write([Put(A, body, {"status": "running"})])
    stored = inner.get(A)
    assert stored is not None
    assert codec == stored.attributes.get("codec")
    assert len(stored.body) <= most_bytes
    assert Record(A, body, {"status": "running"}, 1) == store.get(A)


def test_each_write_has_a_blob_of_its_own_and_a_partition_shares_a_prefix(store: OversizeStore, folder: Path) -> None:
    for key in (A, A, B, Key("q", "a")):
        store.write([Put(key, LARGE)])
    assert sorted(len(list(partition.iterdir())) for partition in folder.iterdir()) == [1, 3]


def test_a_refused_write_leaves_no_blob(store: OversizeStore, folder: Path) -> None:
    store.write([Put(A, LARGE)])
    before = sorted(folder.glob("*/*"))
    with pytest.raises(Conflict):
        store.write([Put(B, LARGE), Put(A, LARGE, {}, (Absent(),))])
    assert before == sorted(folder.glob("*/*"))
    assert Record(A, LARGE, {}, 1) == store.get(A)


class _Refusing:
    """A RangeStore that fails instead of a write, or after it."""

    def __init__(self, inner: SqliteRangeStore, problem: Exception, *, is_applied: bool) -> None:
        self._inner = inner
        self._problem = problem
        self._is_applied = is_applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        if self._is_applied:
            self._inner.write(operations, nonce)
        raise self._problem


@pytest.mark.parametrize(
    ("problem", "is_applied", "left"),
    [
        (StoreUnavailable("the disk is full"), False, 0),
        (StoreUnavailable("the disk failed after the write"), True, 1),
        (StoreUnavailable("no answer", may_be_applied_later=True), False, 1),
        (ValueError("no such operations"), False, 0),
    ],
    ids=["not applied", "applied", "nobody knows", "invalid"],
)
def test_a_failed_write_leaves_a_blob_only_where_its_record_may_need_it(
    inner: SqliteRangeStore, folder: Path, problem: Exception, is_applied: bool, left: int
) -> None:
    refusing: Any = _Refusing(inner, problem, is_applied=is_applied)
    with pytest.raises(type(problem)):
        OversizeStore(refusing, FileBlobStore(folder)).write([Put(A, LARGE), Put(B, b"small")])
    assert len(list(folder.glob("*/*"))) == left


def test_a_write_takes_its_first_blob_away_if_the_second_fails(inner: SqliteRangeStore, folder: Path) -> None:
    store = OversizeStore(inner, FileBlobStore(folder))
    store.write([Put(Key("q", "a"), LARGE)])
    (partition,) = folder.iterdir()
    for blob in partition.iterdir():
        blob.unlink()
    partition.rmdir()
    partition.write_text("a file where a folder should be")
    with pytest.raises(StoreUnavailable):
        store.write([Put(A, LARGE), Put(Key("q", "a"), LARGE)])
    assert [path for path in folder.rglob("*") if path.is_file()] == [partition]


def test_the_blob_of_a_replaced_record_is_left(store: OversizeStore, folder: Path) -> None:
    store.write([Put(A, LARGE)])
    store.write([Put(A, noise(400_000, 2))])
    assert len(list(folder.glob("*/*"))) == 2


def test_the_blob_is_stored_before_the_record(inner: SqliteRangeStore, folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    store = OversizeStore(inner, FileBlobStore(folder))
    with pytest.raises(StoreUnavailable):
        store.write([Put(B, b"half"), Put(A, LARGE)])
    assert not inner.range(Range("p")).records


def test_a_record_whose_blob_is_missing_stays_in_its_range_without_its_content(
    store: OversizeStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write([Put(A, LARGE, {"status": "ended"}), Put(B, b"small")])
    blob = _only_blob(folder)
    blob.unlink()
    (got,) = store.gather([Get(A)], [])[0]
    with pytest.raises(Conflict) as raised:
        store.write([Put(A, b"", {}, (Absent(),))])
    listed = store.range(Range("p")).records
    for lost in (store.get(A), got, listed[0], raised.value.found):
        assert lost is not None
        assert (lost.key, lost.attributes, lost.rev) == (A, {"status": "ended"}, 1)
        with pytest.raises(ContentLost, match="record 'a' is lost"):
            _ = lost.body
    assert listed[1] == Record(B, b"small", {}, 1)
    (logged,) = [record.getMessage() for record in caplog.records]
    assert repr(A) in logged
    assert f"{blob.parent.name}/{blob.stem}' is missing" in logged
    store.write([Put(A, LARGE)])
    assert Record(A, LARGE, {}, 1) == store.get(A)


@pytest.mark.parametrize("body", [LARGE, HUGE], ids=["plain", "compressed"])
def test_a_blob_that_was_changed_is_not_returned(
    store: OversizeStore, folder: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.write([Put(A, body)])
    blob = _only_blob(folder)
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    assert isinstance(store.get(A), LostRecord)
    assert "not the one that was stored" in caplog.text


@pytest.mark.parametrize(
    ("codec", "body"), [("zlib", b"not compressed"), ("blob", b"no pointer"), ("blob", b"{}"), ("blob", b"[]")]
)
def test_a_record_that_cannot_be_decoded_is_lost_and_named(
    store: OversizeStore, inner: SqliteRangeStore, codec: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    inner.write([Put(A, body, {"codec": codec})])
    assert isinstance(store.get(A), LostRecord)
    assert "Key(pk='p', sk='a')" in caplog.text


def test_a_form_of_a_newer_version_is_not_taken_for_lost(store: OversizeStore, inner: SqliteRangeStore) -> None:
    inner.write([Put(A, b"", {"codec": "brotli"})])
    record = store.get(A)
    assert record is not None
    assert not isinstance(record, LostRecord)
    with pytest.raises(RecordTooNew, match=r"record 'a' was stored by a newer version of Turnstone \(format brotli\)"):
        _ = record.body


def test_a_record_that_was_replaced_between_its_own_read_and_its_blobs_is_read_again(
    inner: SqliteRangeStore, folder: Path
) -> None:
    blobs = FileBlobStore(folder)
    writer = OversizeStore(inner, blobs)
    writer.write([Put(A, LARGE)])

    def replace(name: str) -> None:
        writer.write([Put(A, HUGE)])
        blobs.delete(name)

    assert OversizeStore(inner, _BeforeGet(blobs, replace)).get(A) == Record(A, HUGE, {}, 1)


def test_a_record_that_was_deleted_between_its_own_read_and_its_blobs_is_none(
    store: OversizeStore, inner: SqliteRangeStore, folder: Path
) -> None:
    store.write([Put(A, LARGE), Put(B, b"left")])
    reader = OversizeStore(inner, _BeforeGet(FileBlobStore(folder), lambda _: assert_cleared(store)))
    assert reader.range(Range("p")) == RecordPage((Record(B, b"left", {}, 1),))
    assert reader.gather([Get(A)], [])[0] == [None]


def assert_cleared(store: OversizeStore) -> None:
    assert store.clear("p", 10, "a")


class _BeforeGet:
    """A BlobStore in which something happens before the first payload is read."""

    def __init__(self, inner: FileBlobStore, act: Callable[[str], None]) -> None:
        self._inner = inner
        self._acts = [act]

    def put(self, name: str, body: bytes) -> None:
        self._inner.put(name, body)

    def get(self, name: str) -> bytes | None:
        while self._acts:
            self._acts.pop()(name)
        return self._inner.get(name)

    def delete(self, name: str) -> None:
        self._inner.delete(name)

    def clear(self, prefix: str, limit: int) -> bool:
        return self._inner.clear(prefix, limit)


@pytest.mark.parametrize("operation", [Put(A, b"", {"codec": "zlib"}), Update(A, {"codec": None}, ())])
def test_the_codec_is_not_the_callers(store: OversizeStore, operation: Operation) -> None:
    with pytest.raises(ValueError, match="codec"):
        store.write([operation])


def test_a_conflict_without_a_record_is_passed_on(store: OversizeStore) -> None:
    with pytest.raises(Conflict) as raised:
        store.write([Put(B, b""), Put(A, b"", {}, (RevIs(1),))])
    assert (raised.value.operation, raised.value.key, raised.value.found) == (1, A, None)


def test_a_page_ends_before_it_holds_too_many_blobs(store: OversizeStore) -> None:
    bodies = [noise(1_000_000, seed) for seed in range(12)]
    store.write([Put(Key("p", f"{number:02}"), body) for number, body in enumerate(bodies)])
    page = store.range(Range("p"))
    assert (len(page.records), page.after) == (9, "08")
    assert bodies == [record.body for record in read_all(store, Range("p"))]


def test_clearing_records_removes_their_payloads_also_those_of_earlier_bodies(
    store: OversizeStore, folder: Path
) -> None:
    for number in range(3):
        store.write([Put(A, noise(400_000, number)), Put(B, noise(400_000, 9))])
    other = Key("q", "a")
    store.write([Put(other, LARGE)])
    assert [store.clear("p", 2, "a"), store.clear("p", 2, "a")] == [False, True]
    assert (store.get(A), store.get(B) is not None, len(list(folder.glob("*/*")))) == (None, True, 4)
    while not store.clear("p", 2):
        pass
    _only_blob(folder)
    assert store.get(other) is not None


def _only_blob(folder: Path) -> Path:
    (blob,) = folder.glob("*/*")
    return blob
