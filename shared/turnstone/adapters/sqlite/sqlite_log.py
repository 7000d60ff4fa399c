"""The log that SQLite writes before the database: a write counts once its part of the log is on the disk.

SQLite would wait for the disk in the lock that all writers wait for. Here each waits after it has let the lock go, and
who waits does it for all that was written until then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path

# macOS has no fdatasync; SQLite takes fsync there, too.
sync_data = getattr(os, "fdatasync", os.fsync)
_FOR_EVER = -1.0
_PART_BYTES = 1024 * 1024


class SqliteLog:
    """The write-ahead log of one SQLite file, as one process sees it.

    `wrote`, `mend` and `close` are called by who holds the lock of writers, `keep` by anybody.
    """

    def __init__(self, database: Path) -> None:
        """Open the log, which is there as long as a connection to the database is, and have it on the disk.

        Raises:
            OSError: it can't be opened.
        """
        # SQLite has the log beside the file itself, not beside a link to it.
        real = database.resolve()
        self._path = real.with_name(f"{real.name}-wal")
        # Opened once and kept: a failure to write is told to every descriptor that was open when it happened.
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._let_go = weakref.finalize(self, os.close, self._descriptor)
        # It keeps a restore from putting another database in the place of this one.
        fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._syncing = threading.Lock()
        self._written = 0
        self._kept = 0
        # Whoever wrote before may have been told of a failure, and have died of it.
        self._is_in_doubt = True
        # What a process that died had written is read, and told, by this one before it writes anything itself.
        with suppress(OSError):
            sync_data(self._descriptor)

    def wrote(self) -> int:
        """Count a write that has been committed; return its number."""
        self._written += 1
        return self._written

    def keep(self, number: int, timeout_s: float) -> None:
        """Return when all is on the disk that was committed before this number was given.

        Args:
            number: what `wrote` returned.
            timeout_s: how long to stand behind others who wait for the disk; negative means as long as it takes.

        Raises:
            OSError: it may not be.
        """
        if not self._syncing.acquire(timeout=timeout_s):
            raise TimeoutError("others have been waiting for the disk for too long")
        try:
            if number > self._kept:
                self._sync()
        finally:
            self._syncing.release()

    def mend(self) -> None:
        """Write the log once more if part of it may not be on the disk, since nothing behind that part would be found.

        Is called in a transaction that writes, so that nobody else writes to the log. Not a checkpoint: the database
        would be written while the disk has half of the log, and a loss of power would leave neither whole.

        Raises:
            OSError: part of it still may not be on the disk.
        """
        if not self._is_in_doubt:
            return
        with self._syncing:
            self._write_again()
            sync_data(self._descriptor)
            self._kept = self._written
            self._is_in_doubt = False

    def close(self) -> None:
        """Let go of the log, once what was committed is on the disk; who waits for that finds it done, or in doubt."""
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
            # Told once only: the next attempt would succeed, whatever has become of what was to be written.
            self._is_in_doubt = True
            raise
        self._kept = until

    def _write_again(self) -> None:
        # What could not be written counts as written to the system, which still has it in memory.
        with self._path.open("r+b", buffering=0) as log:
            offset = 0
            while part := os.pread(log.fileno(), _PART_BYTES, offset):
                offset += os.pwrite(log.fileno(), part, offset)
