"""Explain failures of the SQLite file to its operator, with the remedy."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from turnstone.domain.errors import StoreUnavailable

PAYLOADS, RESERVE = "blobs", "turnstone.reserve"  # next to the database
HOW_TO_MEND = "stop the server and restore a backup (turnstone restore)"
_LOGS = ("-wal", "-shm")
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# An exceeded quota is a failed write to SQLite, which recognises only a full disk.
_NO_ROOM = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)
_RESTORE = "put it back, or restore a backup (turnstone restore)"


class DiskFull(StoreUnavailable):
    """The disk has no space for a write; nothing of it was applied."""


def check_not_lost(path: Path) -> None:
    """Check that a missing database never existed.

    Raises:
        StoreUnavailable: a file that belongs to it is left.
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
    """Return the file's device and inode. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino


def check_not_replaced(path: Path, identity: tuple[int, int]) -> None:
    """Check that the file of that identity is still in place: writes to a removed file are lost.

    Raises:
        StoreUnavailable: the file was removed or replaced.
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
    """Return the name of a file left by a used database, None without one."""
    real = Path(os.path.realpath(path))  # unlike `resolve`, no error for a loop of links, which opening reports
    for suffix in _LOGS:
        if real.with_name(f"{real.name}{suffix}").exists():
            return f"{real.name}{suffix}"
    if (path.parent / RESERVE).exists():
        return RESERVE
    payloads = path.parent / PAYLOADS
    return next((PAYLOADS for _, _, names in os.walk(payloads) if names), None)
