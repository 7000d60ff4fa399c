"""RangeStore over one SQLite file, for a single machine.

SQLite's BINARY collation compares text in UTF-8, so sort keys have the order they have in DynamoDB.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path

from turnstone.adapters.sqlite.reserve import RESERVE_BYTES, Reserve
from turnstone.adapters.sqlite.sqlite_failures import DiskFull
from turnstone.adapters.sqlite.sqlite_file import BUSY_TIMEOUT_S, SqliteFile
from turnstone.adapters.sqlite.sqlite_rows import attributes_in
from turnstone.adapters.sqlite.sqlite_writes import DELETE, first_failed, was_applied
from turnstone.domain.errors import Conflict
from turnstone.ports.records import Delete, Get, Key, KeyPage, Operation, Range, Record, RecordPage, check_operations

PAGE_BYTES = 1024 * 1024
EXPIRED_AT_ONCE = 1_000
READS_AT_ONCE = 8  # records of one statement, which locks the file once
RECORDS_IN_NEED = 8  # per write where space is short: SQLite may rewrite all of their pages

_GET = "SELECT rev, attributes, body FROM items WHERE pk = ? AND sk = ?"
_ASCENDING = """SELECT sk, rev, attributes, body FROM items
    WHERE pk = ? AND sk >= ? AND sk < ? ORDER BY sk LIMIT ?"""
_DESCENDING = """SELECT sk, rev, attributes, body FROM items
    WHERE pk = ? AND sk >= ? AND sk < ? ORDER BY sk DESC LIMIT ?"""
_OPEN = "SELECT pk, sk FROM items WHERE open = ? AND (pk, sk) > (?, ?) ORDER BY pk, sk LIMIT ?"
_CLEAR = "DELETE FROM items WHERE rowid IN (SELECT rowid FROM items WHERE pk = ? LIMIT ?)"

_EXPIRED = """SELECT rowid FROM items
    WHERE (pk LIKE '%|idempotency:%' OR sk LIKE 'idempotency:%' OR pk LIKE '%|completion:%' OR pk LIKE '%|completions'
        OR pk LIKE '%|upload:%' OR pk LIKE '%|webhook:%' OR sk LIKE 'removed:%')
        AND json_extract(attributes, '$.ttl') <= ?
    LIMIT ?"""
_LAST_ROW = "SELECT max(rowid) FROM items"
_POINTERS = """SELECT body FROM items
    WHERE rowid > ? AND rowid <= ? AND json_extract(attributes, '$.codec') LIKE '%blob'"""  # also codecs to come
_DROP = "DELETE FROM items WHERE rowid = ? AND json_extract(attributes, '$.ttl') <= ?"


class SqliteRangeStore:
    """RangeStore in one file, shared by threads and processes.

    A write is durable when it returns. Only `drop_expired` deletes by the attribute `ttl`.
    A page of a range has a next page whenever it is full (`limit`, `held_bytes` or a megabyte of bodies), even if
    that page is empty.
    """

    def __init__(self, path: Path, wait_s: float = BUSY_TIMEOUT_S, reserve: Reserve | None = None) -> None:
        """Open or create the file and its folder, readable by the owner only.

        Args:
            wait_s: the timeout for other writers, in this process and others.
            reserve: disk space released for a deletion that finds none.

        Raises:
            StoreUnavailable: the file cannot be opened, is missing or damaged, or a newer Turnstone wrote it.
        """
        self._reserve = reserve
        try:
            self._file = SqliteFile(path, wait_s)
        except DiskFull:  # even to read, SQLite needs space for its index of the log
            if not self._try_release_reserve():
                raise
            self._file = SqliteFile(path, wait_s)

    def get(self, key: Key) -> Record | None:
        """Return the record, None if missing."""
        with self._file.reading() as connection:
            return _read(connection, key)

    def range(self, query: Range) -> RecordPage:
        """Return the next page of a range."""
        with self._file.reading() as connection:
            return _read_range(connection, query)

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        """Return the results of several reads, made one after the other: each takes microseconds."""
        with self._file.reading() as connection:
            records: list[Record | None] = []
            for first in range(0, len(gets), READS_AT_ONCE):
                records += _read_all(connection, [get.key for get in gets[first : first + READS_AT_ONCE]])
            return records, [_read_range(connection, query) for query in ranges]

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none.

        Raises:
            Conflict: names the first operation whose condition failed.
            ValueError: see `check_operations`.
        """
        check_operations(operations)
        if not any(isinstance(operation, Delete) for operation in operations):
            self._check_room()
            self._write(operations, nonce)
            return
        try:
            self._write(operations, nonce)
        except DiskFull:
            if not self._try_release_reserve():
                raise
            self._write(operations, nonce)

    def _write(self, operations: Sequence[Operation], nonce: str | None) -> None:
        with self._file.writing() as connection:
            failed = first_failed(connection, operations, nonce)
            if failed is None:
                return
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            if not was_applied(connection, operations, nonce):
                key = operations[failed].key
                raise Conflict(failed, key, _read(connection, key))

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in key order."""
        if limit < 1:
            raise ValueError(f"a page of {limit} keys can't be read")
        behind = after or Key("", "")
        with self._file.reading() as connection:
            rows = connection.execute(_OPEN, (shard, behind.pk, behind.sk, limit)).fetchall()
        keys = tuple(Key(pk, sk) for pk, sk in rows)
        return KeyPage(keys, keys[-1] if len(keys) == limit else None)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Delete records of a partition, or one record; return whether none is left."""
        try:
            return self._clear(pk, limit, sk)
        except DiskFull:
            self._try_release_reserve()
            return self._clear(pk, min(limit, RECORDS_IN_NEED), sk)

    def drop_expired(self, now: datetime) -> int:
        """Delete expired records of idempotency keys, chat completions, uploads, removed documents and deliveries.

        A DynamoDB table does the same by `ttl`.

        Returns the number of deleted records, EXPIRED_AT_ONCE at most. The search takes no lock; the removal takes one.
        """
        moment = int(now.timestamp())
        with self._file.reading() as connection:
            found = connection.execute(_EXPIRED, (moment, EXPIRED_AT_ONCE)).fetchall()
        dropped = [(rowid, moment) for (rowid,) in found]
        try:
            self._drop(dropped)
        except DiskFull:
            self._try_release_reserve()
            dropped = dropped[:RECORDS_IN_NEED]
            self._drop(dropped)
        return len(dropped)

    def pointers(self, after: int, limit: int) -> tuple[list[bytes], int | None]:
        """Return the bodies that reference payloads among the next `limit` rows, and the next position.

        The position is None at the end. A record written during the scan may be missed.
        """
        with self._file.reading() as connection:
            (last,) = connection.execute(_LAST_ROW).fetchone()
            found = connection.execute(_POINTERS, (after, after + limit)).fetchall()
        return [body for (body,) in found], after + limit if last is not None and after + limit < last else None

    def close(self) -> None:
        """Close the file after the current calls. Later calls raise StoreUnavailable."""
        self._file.close()

    def _clear(self, pk: str, limit: int, sk: str | None) -> bool:
        with self._file.writing() as connection:
            if sk is not None:
                connection.execute(DELETE, (pk, sk))
                return True
            return connection.execute(_CLEAR, (pk, limit)).rowcount < limit

    def _drop(self, rows: list[tuple[int, int]]) -> None:
        if rows:
            with self._file.writing() as connection:
                connection.executemany(_DROP, rows)

    def _check_room(self) -> None:
        """Check that a write without deletions leaves the space reserved for them. Raises DiskFull."""
        if self._reserve is None or self._reserve.leaves_room():
            return
        with self._file.reading() as connection:
            (free_pages,) = connection.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        if free_pages * page_bytes < RESERVE_BYTES:
            raise DiskFull("the disk has room for deletions only")

    def _try_release_reserve(self) -> bool:
        return self._reserve is not None and self._reserve.try_release()


def _half_open(query: Range) -> tuple[str, str]:
    """Return the range as a half-open interval of sort keys."""
    # An appended NUL gives the next text in order.
    low, high = query.start, query.end + "\0"
    if query.after is None:
        return low, high
    return (low, min(high, query.after)) if query.reverse else (max(low, query.after + "\0"), high)


def _read_range(connection: sqlite3.Connection, query: Range) -> RecordPage:
    if query.limit is not None and query.limit < 1:
        raise ValueError(f"a page of {query.limit} records can't be read")
    low, high = _half_open(query)
    limit = -1 if query.limit is None else query.limit
    page_bytes = min(query.held_bytes or PAGE_BYTES, PAGE_BYTES)
    records: list[Record] = []
    size_bytes = 0
    rows = connection.execute(_DESCENDING if query.reverse else _ASCENDING, (query.pk, low, high, limit))
    for sk, rev, attributes, body in rows:
        records.append(Record(Key(query.pk, sk), body, attributes_in(attributes), rev))
        size_bytes += len(body)
        if size_bytes >= page_bytes:
            break
    rows.close()
    full = len(records) == query.limit or size_bytes >= page_bytes
    return RecordPage(tuple(records), records[-1].key.sk if full else None)


def _read_all(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[Record | None]:
    """Return the record of each key, None if missing, from one statement."""
    records: list[Record | None] = [None] * len(keys)
    rows = connection.execute(_gets(len(keys)), tuple(chain.from_iterable(keys)))
    for index, rev, attributes, body in rows:
        records[index] = Record(keys[index], body, attributes_in(attributes), rev)
    return records


@lru_cache(maxsize=READS_AT_ONCE)
def _gets(count: int) -> str:
    """Return the statement that reads so many records, each with its index."""
    parts = (f"SELECT {index}, rev, attributes, body FROM items WHERE pk = ? AND sk = ?" for index in range(count))  # noqa: S608 - numbers
    return " UNION ALL ".join(parts)


def _read(connection: sqlite3.Connection, key: Key) -> Record | None:
    row = connection.execute(_GET, key).fetchone()
    if row is None:
        return None
    rev, attributes, body = row
    return Record(key, body, attributes_in(attributes), rev)
