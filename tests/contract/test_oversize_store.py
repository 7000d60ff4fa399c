"""How OversizeStore stores bodies, and what it does when a payload is not what it was. Its other laws: the suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.range_store_reads import noise, read_all
from turnstone.adapters.files import FileBlobStore
from turnstone.adapters.sqlite import SqliteRangeStore
from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.records import Absent, Key, Operation, Put, Range, Record, RevIs, Update
from turnstone.store.oversize import OversizeStore

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


def test_a_missing_blob_is_said_to_be_missing(store: OversizeStore, folder: Path) -> None:
    store.write([Put(A, LARGE)])
    _only_blob(folder).unlink()
    with pytest.raises(StoreUnavailable, match="missing"):
        store.get(A)
    with pytest.raises(StoreUnavailable, match="missing"):
        store.range(Range("p"))
    with pytest.raises(StoreUnavailable, match="missing"):
        store.write([Put(A, b"", {}, (Absent(),))])
    store.write([Put(A, LARGE)])
    assert Record(A, LARGE, {}, 1) == store.get(A)


@pytest.mark.parametrize("body", [LARGE, HUGE], ids=["plain", "compressed"])
def test_a_blob_that_was_changed_is_not_returned(store: OversizeStore, folder: Path, body: bytes) -> None:
    store.write([Put(A, body)])
    blob = _only_blob(folder)
    blob.write_bytes(blob.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreUnavailable, match="not the one that was stored"):
        store.get(A)


@pytest.mark.parametrize(
    ("codec", "body"),
    [("zlib", b"not compressed"), ("blob", b"no pointer"), ("blob", b"{}"), ("blob", b"[]"), ("brotli", b"")],
)
def test_a_record_that_cannot_be_decoded_is_named(
    store: OversizeStore, inner: SqliteRangeStore, codec: str, body: bytes
) -> None:
    inner.write([Put(A, body, {"codec": codec})])
    with pytest.raises(StoreUnavailable, match=r"Key\(pk='p', sk='a'\)"):
        store.get(A)


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


def test_what_is_cleared_takes_its_payloads_along_also_those_of_earlier_bodies(
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
