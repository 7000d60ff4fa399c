"""Room on the disk that is kept back for deletions, so that a full disk can be emptied."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from turnstone.adapters.sqlite.sqlite_failures import RESERVE, DiskFull
from turnstone.ports.storage import BlobStore

# What a checkpoint may add to the database (1,000 pages), and as much again for the log of a deletion.
RESERVE_BYTES = 8 * 1024 * 1024
_LOOKED_AT_FOR_S = 1.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_PART = bytes(1024 * 1024)


class Reserve:
    """A file beside the database that takes up room until a deletion needs it.

    While the room is given up, it is for deletions alone: other writes are refused unless the reserve can be made again
    or the database has as much room inside.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESERVE
        self._changing = threading.Lock()
        self._is_usable = True
        self._is_there = False
        self._looked_at_s = -_LOOKED_AT_FOR_S

    def leaves_room(self) -> bool:
        """Return whether a write that deletes nothing may take room: the reserve is there, or can be made again."""
        return not self._check_missing() or self.try_make() or not self._is_usable

    def try_make(self) -> bool:
        """Take up the room if the disk has it and as much again; return whether the reserve is there."""
        with self._changing:
            self._is_there = self._is_whole() or (self._has_room() and self._try_fill())
            self._looked_at_s = time.monotonic()
            return self._is_there

    def try_give_up(self) -> bool:
        """Give the room up to a deletion; return whether there was any."""
        with self._changing:
            was_there = self._is_whole()
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._is_there, self._looked_at_s = False, time.monotonic()
            return was_there

    def _check_missing(self) -> bool:
        """Return whether its room is given up, by any process, as of a second ago at most."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s > _LOOKED_AT_FOR_S:
            self._is_there, self._looked_at_s = self._is_whole(), now_s
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
            # A disk that can't hold such a file at all has no reserve, and its writes are not refused for that.
            self._is_usable = exc.errno in _NO_ROOM
            return False
        return True


class ReservingBlobStore:
    """A BlobStore that takes no payloads while the room kept back for deletions is given up."""

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
    allocate = getattr(os, "posix_fallocate", None)  # which macOS does not have
    if allocate is not None:
        allocate(descriptor, 0, RESERVE_BYTES)
        return
    for _ in range(0, RESERVE_BYTES, len(_PART)):
        os.write(descriptor, _PART)
