"""Folders that are made are for their owner, and still there after a loss of power."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from turnstone.adapters.folders import make_private_folder


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
