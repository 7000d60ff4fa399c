"""Backups of a data folder: made while servers write to it, verified when they are restored."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.folder_lock import FolderLock
from turnstone.adapters.sqlite.folders import make_private_folder, sync_folder
from turnstone.adapters.sqlite.sqlite_backup import copy_database, kept_from_use, records_with
from turnstone.adapters.sqlite.sqlite_failures import PAYLOADS, RESERVE
from turnstone.bootstrap.places.operator import DATABASE, operated_database
from turnstone.domain.errors import InvalidRequest, StoreUnavailable
from turnstone.settings.config import InvalidSettings, load_settings, names_a_table
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.layout.oversize import REFERRING
from turnstone.store.layout.payloads import Payload, payload_in

MOST_TAKES = 10
LOST = "lost-payloads.json"
ON_A_TABLE = (
    "TURNSTONE_TABLE: a table has backups of its own: use point-in-time recovery of DynamoDB for the table, "
    "and, for the payloads in the bucket, versioning of S3 if you have turned it on"
)
DATA = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", PAYLOADS)


class Copied(NamedTuple):
    """Result of a backup or its restoration.

    Attributes:
        payloads: number of payloads that the database refers to.
        size_bytes: size of the database and its payloads.
        lost: names of payloads that the database refers to and that are missing or damaged.
        earlier: folder with the replaced data, None if there was none.
    """

    payloads: int
    size_bytes: int
    lost: frozenset[str]
    earlier: Path | None = None


def back_up(target: Path) -> Copied:
    """Copy the data folder to a new folder, with every write acknowledged before the call.

    Raises:
        InvalidSettings: There is no data folder.
        InvalidRequest: The folder exists, is in the data folder, or is to be in a folder that does not exist.
        StoreUnavailable: The data are damaged, or the folder can't be written.
    """
    local = _settings()
    database = operated_database(local.data_dir)
    if _real(target).is_relative_to(_real(local.data_dir)):
        raise InvalidRequest(f"the folder {str(target)!r} is in the data folder: name one outside it")
    if os.path.lexists(target):
        raise InvalidRequest(f"the folder {str(target)!r} is there already: name a new one")
    with _writing(target), _unfinished(target.absolute().parent, target.name) as unfinished:
        copied = _copy(database, FileBlobStore(local.data_dir / PAYLOADS), unfinished, local.store_wait_seconds)
        if copied.lost:
            (unfinished / LOST).write_bytes(to_json(sorted(copied.lost)))
        os.rename(unfinished, target)
        sync_folder(target.absolute().parent)
    return copied


def restore(source: Path, *, replaces: bool) -> Copied:
    """Replace the data folder with a backup, after verifying that the backup is complete.

    Raises:
        InvalidRequest: There is no backup, or the folder has data and `replaces` is False.
        StoreUnavailable: The backup is incomplete or can't be read, a server uses the folder, or it can't be written.
    """
    local = _settings()
    _check_holds_a_backup(source)
    data_dir = local.data_dir.absolute()
    with _writing(data_dir):
        has_data = any((data_dir / name).exists() for name in DATA)
        if has_data and not replaces:
            how = "--replace moves its data to a folder before-… within it"
            raise InvalidRequest(f"the data folder {str(data_dir)!r} is not empty: {how}")
        make_private_folder(data_dir)
        with _unfinished(data_dir, "restored") as unfinished:
            wait_s = local.store_wait_seconds
            copied = _copy(source / DATABASE, FileBlobStore(source / PAYLOADS), unfinished, wait_s)
            if missing := copied.lost - _lost_before(source):
                raise StoreUnavailable(f"the backup is not whole: the payload {min(missing)!r} is missing or damaged")
            earlier = data_dir / f"before-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}" if has_data else None
            kept = kept_from_use(data_dir / DATABASE) if has_data else nullcontext()
            with kept, FolderLock(data_dir).held(wait_s):
                _exchange(data_dir, unfinished, earlier)
    return copied._replace(earlier=earlier)


def _real(folder: Path) -> Path:
    """Return the folder without links. A part that can't be resolved stays; using it reports the reason."""
    return Path(os.path.realpath(folder))


def _check_holds_a_backup(source: Path) -> None:
    """Raise InvalidRequest if there is no backup, StoreUnavailable if the folder can't be read."""
    try:
        is_backup = (source / DATABASE).is_file()
    except OSError as exc:
        raise StoreUnavailable(f"the backup {str(source)!r} can't be read: {exc.strerror}") from exc
    if not is_backup:
        raise InvalidRequest(f"there is no backup in {str(source)!r}: it would hold a file {DATABASE}")


def _settings() -> LocalSettings:
    if names_a_table():
        raise InvalidSettings(ON_A_TABLE)
    return load_settings(LocalSettings)


def _copy(database: Path, payloads: FileBlobStore, target: Path, wait_s: float) -> Copied:
    """Copy the database, then its payloads; repeat both if a payload was removed in between."""
    make_private_folder(target / PAYLOADS)  # without the folder, a store can't report a payload as lost
    copies = FileBlobStore(target / PAYLOADS)
    have: dict[str, int] = {}
    lost, missed = set[str](), set[str]()
    for _ in range(MOST_TAKES):
        copy_database(database, target / DATABASE, wait_s)
        pointers = (record.body for record in records_with(target / DATABASE, *REFERRING, wait_s))
        referred = {payload for payload in map(payload_in, pointers) if payload is not None}
        names = {payload.name for payload in referred}
        lost = (lost | missed) & names  # the record still refers to it, so nothing replaced it
        uncopied = {payload for payload in referred if payload.name not in have and payload.name not in lost}
        missed = _copy_payloads(payloads, copies, uncopied, have)
        if not missed:
            break
    else:
        raise StoreUnavailable("payloads are removed faster than they can be copied: try again")
    for name in have.keys() - names:
        copies.delete(name)
    sizes = [have[name] for name in names - lost]
    return Copied(len(sizes), (target / DATABASE).stat().st_size + sum(sizes), frozenset(lost))


def _copy_payloads(
    payloads: FileBlobStore, copies: FileBlobStore, uncopied: set[Payload], have: dict[str, int]
) -> set[str]:
    """Copy payloads and record their sizes in `have`; return the names of missing or damaged ones."""
    missed = set[str]()
    for payload in uncopied:
        body = payloads.get(payload.name)
        if body is None or not payload.is_whole(body):
            missed.add(payload.name)
            continue
        copies.put(payload.name, body)
        have[payload.name] = len(body)
    return missed


def _lost_before(source: Path) -> frozenset[str]:
    """Return the names of payloads lost before the backup."""
    try:
        return frozenset(from_json((source / LOST).read_bytes()))
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError, OSError) as exc:
        raise StoreUnavailable(f"the backup is not whole: {LOST} can't be read: {exc}") from exc


def _exchange(data_dir: Path, restored: Path, earlier: Path | None) -> None:
    """Move the data of the folder to `earlier` and replace it with the restored data, the database last.

    A crash in between leaves a folder that no server starts with, because of the reserve without a database.
    """
    (data_dir / RESERVE).touch(mode=0o600)
    sync_folder(data_dir)
    if earlier is not None:
        earlier.mkdir(mode=0o700)
    for name in DATA:
        if earlier is not None and (data_dir / name).exists():
            os.rename(data_dir / name, earlier / name)
    (data_dir / f"{DATABASE}-wal").unlink(missing_ok=True)
    for name in reversed(DATA):
        if (restored / name).exists():
            os.rename(restored / name, data_dir / name)
    sync_folder(data_dir)


@contextmanager
def _unfinished(parent: Path, name: str) -> Iterator[Path]:
    """Lend a new folder, removed afterwards unless it was renamed. Raises InvalidRequest, StoreUnavailable."""
    try:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=f"{name}-", suffix=".part"))
    except FileNotFoundError as exc:
        where = f"the folder {str(parent)!r} does not exist"
        raise InvalidRequest(f"{where}: create it, or name a place in another one") from exc
    except OSError as exc:  # with the name of the unfinished folder, which means nothing to its reader
        raise StoreUnavailable(f"no folder can be created in {str(parent)!r}: {exc.strerror}") from exc
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreUnavailable(f"the folder {str(folder)!r} can't be written: {exc}") from exc
