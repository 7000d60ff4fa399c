"""What a failure of the SQLite file means to its operator, and what to do."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from turnstone.domain.errors import StoreUnavailable

PAYLOADS, RESERVE = "blobs", "turnstone.reserve"  # beside the database
HOW_TO_MEND = "stop the server and restore a backup (turnstone restore)"
_LOGS = ("-wal", "-shm")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# A quota is a failed write to SQLite, which knows only the full disk by its name.
_NO_ROOM = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
_RESTORE = "put it back, or restore a backup (turnstone restore)"


class DiskFull(StoreUnavailable):
    """The disk has no room for a write, of which nothing was done."""


def check_not_lost(path: Path) -> None:
    """Check that a database which is not there was never there.

    Raises:
        StoreUnavailable: something that belongs to it is left.
    """
    left = _left_beside(path)
    if left is not None and not os.path.lexists(path):
        raise StoreUnavailable(
            f"the database {str(path)!r} is missing, but {left!r} beside it is not: {_RESTORE}; "
            f"to begin without the data, remove the folder {str(path.parent.absolute())!r}"
        )


def check_not_emptied(path: Path) -> None:
    """Check that the database has content: no start leaves an empty file. Raises StoreUnavailable, OSError."""
    if path.stat().st_size == 0:
        raise StoreUnavailable(
            f"the database {str(path)!r} is empty, its content is lost: {_RESTORE}; "
            f"to begin without the data, remove the folder {str(path.parent.absolute())!r}"
        )


def identity_of(path: Path) -> tuple[int, int]:
    """Return what tells the file from every other one. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino


def check_not_replaced(path: Path, identity: tuple[int, int]) -> None:
    """Check that the file of that identity is still there: what is written to a removed file is lost.

    Raises:
        StoreUnavailable: it was removed, or another file is in its place.
    """
    try:
        is_same = identity_of(path) == identity
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise StoreUnavailable(
            f"the database {str(path)!r} was removed or replaced while it was in use: stop the server and {_RESTORE}"
        )


def failure_of(path: Path, error: sqlite3.Error | OSError, wait_s: float) -> StoreUnavailable:
    """Return the error to raise for a failure of SQLite or of the file system."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _DAMAGED:
        return StoreUnavailable(f"the database {str(path)!r} is damaged ({error}): {HOW_TO_MEND}")
    if code is not None and code & 0xFF == sqlite3.SQLITE_BUSY:
        return StoreUnavailable(
            f"the database {str(path)!r} has been held by another process for more than {wait_s:g} s ({error}): "
            "end that process if it is stopped or hangs"
        )
    kind = DiskFull if code in _NO_ROOM else StoreUnavailable
    return kind(f"the database {str(path)!r} failed: {error}")


def _left_beside(path: Path) -> str | None:
    """Return the name of a file that only a database which was used leaves, None if there is none."""
    real = path.resolve()
    for suffix in _LOGS:
        if real.with_name(f"{real.name}{suffix}").exists():
            return f"{real.name}{suffix}"
    if (path.parent / RESERVE).exists():
        return RESERVE
    payloads = path.parent / PAYLOADS
    return next((PAYLOADS for _, _, names in os.walk(payloads) if names), None)
