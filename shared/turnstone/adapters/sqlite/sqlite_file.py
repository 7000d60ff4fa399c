"""The SQLite file: its schema, connections and transactions."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnstone.adapters.sqlite.folder_lock import FolderLock
from turnstone.adapters.sqlite.folders import make_private_folder, sync_folder
from turnstone.adapters.sqlite.sqlite_failures import (
    check_not_emptied,
    check_not_lost,
    check_not_replaced,
    failure_of,
    identity_of,
)
from turnstone.adapters.sqlite.sqlite_log import SqliteLog
from turnstone.domain.errors import StoreUnavailable

SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 5.0
_WAL_RETRY_S = 0.005

# Not WITHOUT ROWID: its rows spill at a quarter of a page, which made reading 2 KB twice as slow and the file larger.
_SCHEMA = (
    """CREATE TABLE items (
        pk TEXT NOT NULL,
        sk TEXT NOT NULL,
        rev INTEGER NOT NULL,
        open TEXT,
        attributes TEXT NOT NULL,
        nonce TEXT,
        body BLOB NOT NULL,
        PRIMARY KEY (pk, sk)
    )""",
    "CREATE INDEX open_items ON items (open, pk, sk) WHERE open IS NOT NULL",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class SqliteFile:
    """One file, shared by threads and processes: many readers and one writer at a time.

    Every use raises StoreUnavailable when SQLite or the file system fails, and after `close`.
    """

    def __init__(self, path: Path, wait_s: float = BUSY_TIMEOUT_S) -> None:
        """Open or create the file and its folder, readable by the owner only.

        Args:
            wait_s: the timeout for other writers, in this process and others.

        Raises:
            StoreUnavailable: the file cannot be opened, is missing or damaged, or a newer Turnstone wrote it.
        """
        self._path = path
        self._wait_s = wait_s
        self._closed = False
        self._was_read_only = False
        self._writing = threading.Lock()
        self._idle_readers: deque[sqlite3.Connection] = deque()
        try:
            make_private_folder(path.parent)
            # SQLite would poll with sleeps of up to a tenth of a second, long with a busy neighbour. A folder's lock
            # wakes its waiter, and closing it does not drop SQLite's own locks.
            self._queue = FolderLock(path.parent)
            self._create()
            self._writer, self._log = self._open()
        except (sqlite3.Error, OSError) as exc:
            raise self._failure(exc) from exc

    def connect(self, path: Path) -> sqlite3.Connection:
        """Return a new connection for use by any thread."""
        # Mode rw: a removed file is not created again, empty and readable by all.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=self._wait_s, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for reading. Each statement sees everything committed before it."""
        if self._closed:
            raise self._closed_error()
        # A pool, not a connection per thread: threads come and go, and would leave their connections open.
        try:
            try:
                connection = self._idle_readers.pop()
            except IndexError:
                connection = self.connect(self._path)
            try:
                yield connection
            finally:
                self._idle_readers.append(connection)
                if self._closed:
                    self._close_idle_readers()
        except (sqlite3.Error, OSError) as exc:
            raise self._failure(exc) from exc

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for writing: its changes are durable afterwards or, on any error, rolled back.

        Reads are synced, too: no error may be reported from data that a loss of power could still revert.
        """
        log, number = self._log, 0
        wait_until_s = time.monotonic() + self._wait_s
        if not self._writing.acquire(timeout=self._wait_s):
            raise StoreUnavailable(f"other writes to the database {str(self._path)!r} are taking too long")
        try:
            if self._closed:
                raise self._closed_error()
            self._queue.take(wait_until_s - time.monotonic())  # wait for the writes of other processes
            try:
                self._begin()
                try:
                    yield self._writer
                    self._writer.execute("COMMIT")
                finally:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    log, number = self._log, self._log.wrote()
            except (sqlite3.OperationalError, OSError) as exc:
                self._note_read_only(exc)
                raise
            finally:
                self._queue.release()
        except (sqlite3.Error, OSError) as exc:
            raise self._failure(exc) from exc
        finally:
            self._writing.release()
            try:
                log.keep(number, self._wait_s)
            except (sqlite3.Error, OSError) as exc:
                raise self._failure(exc) from exc

    def close(self) -> None:
        """Close the file after the current calls."""
        self._closed = True
        with self._writing:
            self._queue.close()
            self._log.close()
            self._writer.close()
        self._close_idle_readers()

    def _create(self) -> None:
        """Create the complete file unless it exists."""
        check_not_lost(self._path)
        if not os.path.lexists(self._path):
            with self._queue.held(self._wait_s):
                if not os.path.lexists(self._path):
                    _make_database(self._path)
        # Never open an existing file: closing it would drop the locks of this process's other connections.
        check_not_emptied(self._path)

    def _open(self) -> tuple[sqlite3.Connection, SqliteLog]:
        connection = self.connect(self._path)
        try:
            _prepare(connection, self._wait_s)
            # The writer syncs the log itself; before SQLite overwrites parts of it, SQLite syncs, too.
            connection.execute("PRAGMA synchronous = NORMAL")
            self._identity = identity_of(self._path)
            return connection, SqliteLog(self._path)
        except BaseException:
            connection.close()
            raise

    def _begin(self) -> None:
        if self._was_read_only:
            self._reopen()
        check_not_replaced(self._path, self._identity)
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            self._log.mend()
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise

    def _note_read_only(self, exc: sqlite3.OperationalError | OSError) -> None:
        may_not = isinstance(exc, PermissionError) or getattr(exc, "errno", None) == errno.EROFS
        if may_not or getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY:
            self._was_read_only = True

    def _reopen(self) -> None:
        # A file opened read-only stays so while a connection to it is open, even after it becomes writable.
        self._drop_idle_readers()
        self._log.close()
        self._writer.close()
        self._writer, self._log = self._open()
        self._was_read_only = False

    def _close_idle_readers(self) -> None:
        # Of connections that close simultaneously, none would be the last one, which checkpoints the log.
        with self._writing:
            self._drop_idle_readers()

    def _drop_idle_readers(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle_readers.pop().close()

    def _closed_error(self) -> StoreUnavailable:
        return StoreUnavailable(f"the database {str(self._path)!r} is closed")

    def _failure(self, exc: sqlite3.Error | OSError) -> StoreUnavailable:
        return failure_of(self._path, exc, self._wait_s)


def _make_database(path: Path) -> None:
    """Create an empty database, which appears under its name once it is durable."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-", suffix=".new")
    os.close(descriptor)
    try:
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            _write_schema(connection)
        finally:
            connection.close()
        os.rename(unfinished, path)
        sync_folder(path.parent)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _prepare(connection: sqlite3.Connection, wait_s: float) -> None:
    _schema_version(connection)  # a file of a newer Turnstone stays unchanged
    _switch_to_wal(connection, wait_s)
    if _schema_version(connection) < SCHEMA_VERSION:
        _write_schema(connection)


def _write_schema(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been faster.
    if _schema_version(connection) < SCHEMA_VERSION:
        for statement in _SCHEMA:
            connection.execute(statement)
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection, wait_s: float) -> None:
    # The only statement for which SQLite does not wait for another process.
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_WAL_RETRY_S)


def _schema_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"the database has schema {version}, this Turnstone knows {SCHEMA_VERSION}: run the newer Turnstone on it"
        )
    return version
