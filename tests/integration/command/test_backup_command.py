"""`turnstone backup` and `turnstone restore` refuse to lose or mix data, in one line, and leave nothing behind.

Covers: functions/command, adapters/sqlite/sqlite_backup, adapters/sqlite/folder_lock
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from functions.command import main as cli
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.bootstrap.places import backup
from turnstone.ports.records import Delete, Key, Put
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.oversize import OversizeStore

A, B = Key("p", "a"), Key("p", "b")


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    umask = os.umask(0o022)
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "data"))
    yield tmp_path / "data"
    os.umask(umask)


def stored(data_dir: Path, *puts: Put) -> None:
    with closing(SqliteRangeStore(data_dir / "turnstone.db")) as sqlite:
        OversizeStore(sqlite, FileBlobStore(data_dir / "blobs")).write(puts)


def large(key: Key) -> Put:
    return Put(key, os.urandom(400_000))


def refused(*words: object) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in words])
    message = str(end.value)
    assert message.startswith("turnstone: ")
    assert len(message.splitlines()) == 1
    return message


def test_a_table_has_backups_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTONE_TABLE", "turnstone")
    for command in ("backup", "restore"):
        assert "point-in-time recovery" in refused(command, tmp_path / "backup")


def test_a_backup_needs_data_and_a_new_folder_elsewhere(data_dir: Path, tmp_path: Path) -> None:
    assert "no server data" in refused("backup", tmp_path / "backup")
    stored(data_dir, Put(A, b"a"))
    assert "already" in refused("backup", tmp_path)
    assert "in the data folder" in refused("backup", data_dir / "backup")
    missing = str(tmp_path / "missing")
    message = refused("backup", tmp_path / "missing" / "backup")
    assert message == f"turnstone: the folder {missing!r} does not exist: create it, or name a place in another one"


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this user may not search, even if a superuser runs the test."""
    folder = tmp_path / "closed"

    def denied(call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(path: Any, *more: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and folder in Path(path).parents:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return call(path, *more, **options)

        return checked

    folder.mkdir()
    for name in ("stat", "lstat", "mkdir", "open", "readlink"):
        monkeypatch.setattr(os, name, denied(getattr(os, name)))
    return folder


def test_a_folder_that_may_not_be_searched_is_named(
    data_dir: Path, tmp_path: Path, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(data_dir, Put(A, b"a"))
    for target in (closed / "x", closed / "in" / "x"):
        message = refused("backup", target)
        assert str(target.parent) in message
        assert message.endswith(": Permission denied")
    assert refused("restore", closed / "in").endswith(
        f"the backup {str(closed / 'in')!r} can't be read: Permission denied"
    )
    cli.main(["backup", str(tmp_path / "backup")])
    (tmp_path / "backup" / backup.LOST).mkdir()
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "new"))
    assert backup.LOST in refused("restore", tmp_path / "backup")
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(closed / "in"))
    for option in ("--json", "--replace"):
        message = refused("restore", option, tmp_path / "backup")
        assert message.startswith(f"turnstone: the folder {str(closed / 'in')!r} can't be written: ")
        assert "Permission denied" in message


def test_names_that_are_no_folders_are_refused(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(data_dir, Put(A, b"a"))
    loop, long = tmp_path / "loop", tmp_path / ("a" * 400)
    loop.symlink_to(loop)
    assert refused("backup", long).endswith(": File name too long")
    assert refused("restore", long).endswith(": File name too long")
    assert "already" in refused("backup", loop)
    assert refused("backup", loop / "x").endswith(": Too many levels of symbolic links")
    assert "no backup" in refused("restore", loop)
    cli.main(["backup", str(tmp_path / "backup")])
    for folder in (loop, long):
        monkeypatch.setenv("TURNSTONE_DATA_DIR", str(folder))
        refused("backup", tmp_path / "another")
        refused("restore", tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data", "loop"]


def test_a_damaged_database_makes_no_backup(data_dir: Path, tmp_path: Path) -> None:
    stored(data_dir, *(Put(Key("p", f"{number:02}"), b"x" * 700) for number in range(50)))
    with (data_dir / "turnstone.db").open("r+b") as file:
        file.seek(8 * 4096)
        file.write(bytes(4096))
    assert "is damaged" in refused("backup", tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_lost_payload_is_named_and_stops_neither_backup_nor_restore(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(data_dir, large(A))
    (lost,) = (data_dir / "blobs").rglob("*.blob")
    stored(data_dir, large(B))
    lost.write_bytes(b"other")
    cli.main(["backup", str(tmp_path / "backup")])
    output = capsys.readouterr()
    assert " 1 payloads, " in output.out
    assert [line for line in output.err.splitlines() if lost.stem in line]
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "new"))
    cli.main(["restore", str(tmp_path / "backup")])
    with closing(SqliteRangeStore(tmp_path / "new" / "turnstone.db")) as sqlite:
        store = OversizeStore(sqlite, FileBlobStore(tmp_path / "new" / "blobs"))
        assert isinstance(store.get(A), LostRecord)
        assert not isinstance(store.get(B), LostRecord)
    next((tmp_path / "backup").rglob("*.blob")).unlink()
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "newer"))
    assert "not whole" in refused("restore", tmp_path / "backup")


def test_a_payload_that_is_removed_while_payloads_are_copied_is_not_missed(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(data_dir, large(A), large(B))
    payloads = OversizeStore(SqliteRangeStore(data_dir / "turnstone.db"), FileBlobStore(data_dir / "blobs"))
    copy = backup.copy_database
    acts: list[Callable[[], object]] = [lambda: payloads.clear("p", 9, "a")]

    def copied_before_a_removal(source: Path, target: Path, wait_s: float) -> None:
        copy(source, target, wait_s)
        if acts:
            payloads.write([Delete(A)])
            acts.pop()()

    monkeypatch.setattr(backup, "copy_database", copied_before_a_removal)
    copied = backup.back_up(tmp_path / "backup")
    assert (copied.payloads, len(list((tmp_path / "backup").rglob("*.blob")))) == (1, 1)
    with closing(SqliteRangeStore(tmp_path / "backup" / "turnstone.db")) as sqlite:
        store = OversizeStore(sqlite, FileBlobStore(tmp_path / "backup" / "blobs"))
        assert (store.get(A), store.get(B)) == (None, payloads.get(B))


def test_a_changed_payload_is_not_restored(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(data_dir, large(A))
    cli.main(["backup", str(tmp_path / "backup")])
    (payload,) = (tmp_path / "backup").rglob("*.blob")
    payload.write_bytes(b"other")
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "new"))
    assert "missing or damaged" in refused("restore", tmp_path / "backup")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_restore_needs_a_backup_and_moves_data_aside_only_with_the_option(data_dir: Path, tmp_path: Path) -> None:
    assert "no backup" in refused("restore", tmp_path / "backup")
    stored(data_dir, Put(A, b"old"))
    cli.main(["backup", str(tmp_path / "backup")])
    stored(data_dir, Put(A, b"new"))
    assert refused("restore", tmp_path / "backup") == (
        f"turnstone: the data folder {str(data_dir)!r} is not empty: "
        "--replace moves its data to a folder before-… within it"
    )
    cli.main(["restore", "--replace", str(tmp_path / "backup")])
    (earlier,) = data_dir.glob("before-*")
    bodies = []
    for database in (data_dir / "turnstone.db", earlier / "turnstone.db"):
        with closing(sqlite3.connect(database)) as connection:
            bodies += connection.execute("SELECT body FROM items").fetchall()
    assert bodies == [(b"old",), (b"new",)]


def test_a_restore_waits_for_no_server(data_dir: Path, tmp_path: Path) -> None:
    stored(data_dir, Put(A, b"a"))
    cli.main(["backup", str(tmp_path / "backup")])
    with closing(SqliteRangeStore(data_dir / "turnstone.db")):
        assert "stop it" in refused("restore", "--replace", tmp_path / "backup")
    assert not list(data_dir.glob("before-*"))


def test_a_restore_that_was_cut_off_is_no_fresh_start(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(data_dir, Put(A, b"a"))
    cli.main(["backup", str(tmp_path / "backup")])
    rename, names = os.rename, list[str]()

    def until_the_database(source: Path, target: Path) -> None:
        names.append(Path(target).name)
        if names.count("turnstone.db") == 2:
            raise OSError("no such luck")
        rename(source, target)

    monkeypatch.setattr(os, "rename", until_the_database)
    assert "no such luck" in refused("restore", "--replace", tmp_path / "backup")
    monkeypatch.undo()
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(data_dir))
    assert "missing" in refused("keys", "create", "ann")
    cli.main(["restore", "--replace", str(tmp_path / "backup")])
    cli.main(["keys", "list"])
