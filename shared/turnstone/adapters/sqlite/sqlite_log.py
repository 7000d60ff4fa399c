"""The write-ahead log of SQLite: a write counts once its part of the log is on the disk.

SQLite would sync inside the lock that all writers wait for. Here each writer syncs after releasing the lock, and
one sync covers all writes committed until then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path

# macOS has no fdatasync; SQLite uses fsync there, too.
sync_data = getattr(os, "fdatasync", os.fsync)
_FOR_EVER = -1.0
_PART_BYTES = 1024 * 1024


class SqliteLog:
    """The write-ahead log of one SQLite file, as one process sees it.

    `wrote`, `mend` and `close` require the writers' lock, `keep` does not.
    """

    def __init__(self, database: Path) -> None:
        """Open the log, which exists as long as a connection to the database, and sync it.

        Raises:
            OSError: the log cannot be opened.
        """
        # SQLite keeps the log next to the file itself, not next to a link to it.
        real = database.resolve()
        self._path = real.with_name(f"{real.name}-wal")
        # Opened once and kept: the system reports a failed write to every descriptor open at that time.
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._let_go = weakref.finalize(self, os.close, self._descriptor)
        # Prevents a restore from replacing this database.
        fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._syncing = threading.Lock()
        self._written = 0
        self._kept = 0
        # An earlier writer may have received a sync error and died of it.
        self._is_in_doubt = True
        # This process reads and returns the writes of a dead one before it writes anything itself.
        with suppress(OSError):
            sync_data(self._descriptor)

    def wrote(self) -> int:
        """Count a committed write; return its number."""
        self._written += 1
        return self._written

    def keep(self, number: int, timeout_s: float) -> None:
        """Return when everything committed before that number is on the disk.

        Args:
            number: the result of `wrote`.
            timeout_s: how long to wait for another thread's sync; negative for no limit.

        Raises:
            OSError: the write may not be on the disk.
        """
        if not self._syncing.acquire(timeout=timeout_s):
            raise TimeoutError("others have been waiting for the disk for too long")
        try:
            if number > self._kept:
                self._sync()
        finally:
            self._syncing.release()

    def mend(self) -> None:
        """Rewrite the log if part of it may be missing on the disk, since recovery stops at a gap.

        Runs in a write transaction, so that no other process writes to the log. Not a checkpoint: it would write the
        database while the disk has half of the log, and a loss of power would leave neither whole.

        Raises:
            OSError: part of the log may still be missing on the disk.
        """
        if not self._is_in_doubt:
            return
        with self._syncing:
            self._write_again()
            sync_data(self._descriptor)
            self._kept = self._written
            self._is_in_doubt = False

    def close(self) -> None:
        """Close the log, after syncing the committed writes; pending calls of `keep` return, or fail as undecided."""
        with suppress(OSError):
            self.keep(self._written, _FOR_EVER)
        with self._syncing:
            self._let_go()

    def _sync(self) -> None:
        if self._is_in_doubt:
            raise OSError(errno.EIO, "an earlier write to its log may be lost")
        until = self._written
        try:
            sync_data(self._descriptor)
        except OSError:
            # Reported once only: the next attempt would succeed, whatever happened to the data.
            self._is_in_doubt = True
            raise
        self._kept = until

    def _write_again(self) -> None:
        # A failed write counts as written to the system, which still has it in memory.
        with self._path.open("r+b", buffering=0) as log:
            offset = 0
            while part := os.pread(log.fileno(), _PART_BYTES, offset):
                offset += os.pwrite(log.fileno(), part, offset)
