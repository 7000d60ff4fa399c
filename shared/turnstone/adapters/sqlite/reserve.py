"""Disk space reserved for deletions, so that a full disk can be emptied."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from turnstone.adapters.sqlite.sqlite_failures import RESERVE, DiskFull
from turnstone.ports.storage import BlobStore

# The growth of the database in a checkpoint (1,000 pages), and as much again for the log of a deletion.
RESERVE_BYTES = 8 * 1024 * 1024
_CHECK_VALID_S = 1.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_PART = bytes(1024 * 1024)


class Reserve:
    """A file next to the database that occupies space until a deletion needs it.

    While the space is released, only deletions may use it: other writes are refused unless the reserve can be created
    again or the database has as much free space inside.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESERVE
        self._changing = threading.Lock()
        self._is_usable = True
        self._is_there = False
        self._checked_at_s = -_CHECK_VALID_S

    def leaves_room(self) -> bool:
        """Return whether a write that deletes nothing may take space: the reserve exists, or can be created again."""
        return not self._check_missing() or self.try_make() or not self._is_usable

    def try_make(self) -> bool:
        """Occupy the space if the disk has it twice; return whether the reserve exists."""
        with self._changing:
            self._is_there = self._is_whole() or (self._has_room() and self._try_fill())
            self._checked_at_s = time.monotonic()
            return self._is_there

    def try_release(self) -> bool:
        """Release the space for a deletion; return whether there was any."""
        with self._changing:
            was_there = self._is_whole()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._is_there, self._checked_at_s = False, time.monotonic()
            return was_there

    def _check_missing(self) -> bool:
        """Return whether any process has released the space, as of at most a second ago."""
        now_s = time.monotonic()
        if now_s - self._checked_at_s > _CHECK_VALID_S:
            self._is_there, self._checked_at_s = self._is_whole(), now_s
        return self._is_usable and not self._is_there

    def _is_whole(self) -> bool:
        try:
            return self._path.stat().st_size >= RESERVE_BYTES
        except OSError:
            return False

    def _has_room(self) -> bool:
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return False
        return disk.f_bavail * disk.f_frsize >= 2 * RESERVE_BYTES

    def _try_fill(self) -> bool:
        try:
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                _fill(descriptor)
            finally:
                os.close(descriptor)
        except OSError as exc:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            # A disk without room for such a file has no reserve, and its writes are not refused for that.
            self._is_usable = exc.errno in _NO_ROOM
            return False
        return True


class ReservingBlobStore:
    """BlobStore that refuses payloads while the space reserved for deletions is released."""

    def __init__(self, blobs: BlobStore, reserve: Reserve) -> None:
        self._blobs = blobs
        self._reserve = reserve
        self.get = blobs.get
        self.pieces = blobs.pieces
        self.delete = blobs.delete
        self.clear = blobs.clear

    def put(self, name: str, body: bytes) -> None:
        """Store the payload. Raises StoreUnavailable."""
        if not self._reserve.leaves_room():
            raise DiskFull(f"the payload {name!r} can't be stored: the disk has room for deletions only")
        self._blobs.put(name, body)


def _fill(descriptor: int) -> None:
    allocate = getattr(os, "posix_fallocate", None)  # missing on macOS
    if allocate is not None:
        allocate(descriptor, 0, RESERVE_BYTES)
        return
    for _ in range(0, RESERVE_BYTES, len(_PART)):
        os.write(descriptor, _PART)
