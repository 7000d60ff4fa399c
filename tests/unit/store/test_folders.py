"""Folders that are made are for their owner, and still there after a loss of power.

Covers: adapters/sqlite/folders
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from turnstone.adapters.sqlite.folders import make_private_folder


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were synced, in order."""
    folders: list[Path] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: folders.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
    )
    return folders


def test_each_folder_that_was_made_is_synced_where_its_name_stands(tmp_path: Path, synced: list[Path]) -> None:
    make_private_folder(tmp_path / "a" / "b" / "c")
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    assert stat.filemode((tmp_path / "a" / "b" / "c").stat().st_mode) == "drwx------"


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path, synced: list[Path]) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_private_folder(tmp_path / "a")
    assert synced == []
    assert stat.filemode((tmp_path / "a").stat().st_mode) == "drwxr-xr-x"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_synced_is_no_failure_and_one_that_fails_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(_: int) -> None:
        raise OSError(code, "not now")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="not now") if code == errno.EIO else nullcontext():
        make_private_folder(tmp_path / "a")
