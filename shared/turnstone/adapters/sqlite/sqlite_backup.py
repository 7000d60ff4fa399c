"""Copy an SQLite file completely, even while servers write to it."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from turnstone.adapters.sqlite.sqlite_failures import HOW_TO_MEND, check_not_emptied, check_not_lost, failure_of
from turnstone.adapters.sqlite.sqlite_rows import attributes_in
from turnstone.domain.errors import StoreUnavailable
from turnstone.ports.records import Key, Record, Scalar

_WITH_VALUE = """SELECT pk, sk, rev, attributes, body FROM items
    WHERE json_extract(attributes, ?) IN (SELECT value FROM json_each(?))"""


def check_database(database: Path, wait_s: float) -> None:
    """Read the whole database, even while servers use it.

    Raises:
        StoreUnavailable: it is missing, empty or damaged, or can't be read.
    """
    with _failures_of(database, wait_s):
        check_not_lost(database)
        check_not_emptied(database)
        mode = "rw" if os.access(database, os.W_OK) else "ro"
        with closing(_opened(database, mode, wait_s)) as reading:
            (found,) = reading.execute("PRAGMA quick_check(1)").fetchone()
    _refuse_damage(database, found, HOW_TO_MEND)


def copy_database(source: Path, target: Path, wait_s: float) -> None:
    """Copy everything committed to the source before the call into one file, and check the copy.

    Raises:
        StoreUnavailable: the source is missing or damaged, or the target cannot be written.
    """
    with _failures_of(source, wait_s):
        check_not_lost(source)
        check_not_emptied(source)
        mode = "rw" if os.access(source, os.W_OK) else "ro"
        with closing(_opened(source, mode, wait_s)) as reading, closing(_opened(target, "rwc", wait_s)) as copy:
            # In one step: a copy in several steps restarts whenever another process writes.
            reading.backup(copy)
            # A single file, whose log cannot be lost when it is moved.
            copy.execute("PRAGMA journal_mode = DELETE")
            (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    _refuse_damage(source, found, "restore an earlier backup")


def records_with(database: Path, attribute: str, values: Sequence[Scalar], wait_s: float) -> Iterator[Record]:
    """Yield the records whose attribute has one of the values. Raises StoreUnavailable."""
    with _failures_of(database, wait_s), closing(_opened(database, "ro", wait_s)) as connection:
        rows = connection.execute(_WITH_VALUE, (f"$.{attribute}", json.dumps(list(values))))
        for pk, sk, rev, attributes, body in rows:
            yield Record(Key(pk, sk), body, attributes_in(attributes), rev)


@contextmanager
def kept_from_use(database: Path) -> Iterator[None]:
    """Prevent servers and commands from opening the database.

    Raises:
        StoreUnavailable: the database is open in a process.
    """
    real = database.resolve()
    try:
        descriptor = os.open(real.with_name(f"{real.name}-wal"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise failure_of(database, exc, 0) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as exc:
        raise StoreUnavailable(f"a server or a command uses the database {str(database)!r}: stop it first") from exc
    finally:
        os.close(descriptor)


def _refuse_damage(path: Path, found: str, remedy: str) -> None:
    """Raise StoreUnavailable unless SQLite's check found nothing."""
    if found != "ok":
        problem = " ".join(found.split())
        raise StoreUnavailable(f"the database {str(path)!r} is damaged ({problem}): {remedy}")


def _opened(path: Path, mode: str, wait_s: float) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=wait_s, isolation_level=None)


@contextmanager
def _failures_of(path: Path, wait_s: float) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as exc:
        raise failure_of(path, exc, wait_s) from exc
