"""Files that `turnstone memory add` takes, and their paths in a bank.

Covers: functions/command/memory/local_files
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from functions.command.memory.local_files import UnusablePath, chosen_files, path_in_bank


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "notes/c.md", "notes/deep/a.md", "notes/.hidden", "notes/.git/config"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    return tmp_path


def paths(*arguments: str, is_recursive: bool = False) -> list[str]:
    return [file.path for file in chosen_files([Path(each) for each in arguments], is_recursive=is_recursive)]


def test_a_file_named_twice_is_taken_once() -> None:
    assert paths("./b.txt", "b.txt", "notes/../b.txt") == ["b.txt"]


def test_a_file_has_one_path_however_it_is_named(folder: Path) -> None:
    assert paths("b.txt", str(folder / "b.txt")) == ["b.txt"]
    assert path_in_bank("../b.txt") == "../b.txt"
    assert path_in_bank("/etc/hosts") == "/etc/hosts"


def test_a_folder_is_taken_only_on_request_and_without_hidden_files() -> None:
    assert paths("notes/", is_recursive=True) == ["notes/c.md", "notes/deep/a.md"]
    assert paths("notes/.hidden") == ["notes/.hidden"]
    with pytest.raises(UnusablePath, match=r"^notes: is a folder; name its files, or add --recursive$"):
        paths("b.txt", "notes")


def test_a_folder_without_files_is_refused(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(UnusablePath, match="no file to add"):
        paths("empty", is_recursive=True)


def test_links_in_a_folder_are_taken_if_they_are_files(folder: Path) -> None:
    (folder / "notes/to_file").symlink_to(folder / "b.txt")
    (folder / "notes/to_folder").symlink_to(folder / "notes")
    assert paths("notes", is_recursive=True) == ["notes/c.md", "notes/to_file", "notes/deep/a.md"]


def test_other_than_files_are_refused_by_name(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name, problem in (("none.txt", "there is no such file"), ("pipe", "is not a file")):
        with pytest.raises(UnusablePath, match=f"^{name}: {problem}$"):
            paths("b.txt", name)
    with pytest.raises(UnusablePath, match="not valid UTF-8"):
        paths(os.fsdecode(b"\xff.txt"))


def test_a_path_is_kept_as_it_is_given() -> None:
    assert path_in_bank("./notes//c.md") == "notes/c.md"
    assert path_in_bank("../shore/c.md") == "../shore/c.md"
    assert path_in_bank(Path("/srv/c.md")) == "/srv/c.md"
