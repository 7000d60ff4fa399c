"""FileBlobStore: a payload is there whole or not at all, and only inside its folder.

Covers: adapters/sqlite/files
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.domain.errors import StoreUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "blobs"


@pytest.fixture
def blobs(folder: Path) -> FileBlobStore:
    return FileBlobStore(folder)


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/c", "A-Z_09", "-", "n" * 200])
@pytest.mark.parametrize("body", [b"", b"\x00\xff" * 100_000])
def test_a_payload_is_read_as_it_was_put(blobs: FileBlobStore, name: str, body: bytes) -> None:
    blobs.put(name, body)
    assert body == blobs.get(name)


@pytest.mark.parametrize(
    "name", ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a.b", "a\\b", "a b", "ä", "a\0", "a\n", "~\n"]
)
def test_a_name_that_could_leave_the_folder_is_a_programming_error(blobs: FileBlobStore, name: str) -> None:
    for call in (lambda: blobs.put(name, b""), lambda: blobs.get(name), lambda: blobs.delete(name)):
        with pytest.raises(ValueError):
            call()


def test_a_name_may_be_the_beginning_of_another(blobs: FileBlobStore) -> None:
    for name in ("a/b", "a", "a/b/c"):
        blobs.put(name, name.encode())
    assert [blobs.get(name) for name in ("a", "a/b", "a/b/c")] == [b"a", b"a/b", b"a/b/c"]


def test_putting_again_replaces(blobs: FileBlobStore) -> None:
    blobs.put("a", b"1")
    blobs.put("a", b"2")
    assert blobs.get("a") == b"2"


def test_a_missing_payload_is_none(blobs: FileBlobStore) -> None:
    blobs.put("a", b"")
    blobs.delete("a")
    blobs.delete("a")
    assert blobs.get("a") is None


def test_a_payload_of_a_missing_folder_is_unavailable_rather_than_missing(blobs: FileBlobStore, folder: Path) -> None:
    blobs.put("a", b"")
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(StoreUnavailable, match="'a'"):
        blobs.get("a")


def test_an_unreadable_payload_is_not_missing(blobs: FileBlobStore, folder: Path) -> None:
    (folder / "a.blob").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match="'a'"):
        blobs.get("a")


def test_only_the_owner_may_read(blobs: FileBlobStore, folder: Path) -> None:
    blobs.put("a/b", b"a conversation")
    modes = [stat.filemode(path.stat().st_mode) for path in (folder, folder / "a" / "b.blob")]
    assert modes == ["drwx------", "-rw-------"]


def test_a_failed_put_leaves_nothing(blobs: FileBlobStore, folder: Path) -> None:
    (folder / "a.blob").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match="can't be stored"):
        blobs.put("a", b"")
    assert [folder / "a.blob"] == list(folder.iterdir())


def test_a_folder_that_cannot_be_made_is_unavailable(blobs: FileBlobStore, folder: Path) -> None:
    folder.parent.write_text("a file")
    for call in (lambda: blobs.put("a", b""), lambda: blobs.get("a"), lambda: blobs.delete("a")):
        with pytest.raises(StoreUnavailable):
            call()


def test_older_payloads_are_named_and_unfinished_files_of_that_age_removed(blobs: FileBlobStore, folder: Path) -> None:
    for name in ("a/old", "a/young", "b"):
        blobs.put(name, b"")
    old, young = folder / "a" / "old.part", folder / "a" / "young.part"
    for path in (old, young):
        path.touch()
    for path in (old, folder / "a" / "old.blob", folder / "b.blob"):
        os.utime(path, (0, 0))
    assert sorted(blobs.older_than(3_600)) == ["a/old", "b"]
    assert (old.exists(), young.exists()) == (False, True)


def test_before_the_first_payload_there_are_no_older_ones(blobs: FileBlobStore) -> None:
    assert list(blobs.older_than(0)) == []
