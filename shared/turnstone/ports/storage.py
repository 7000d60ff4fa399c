"""Storage of records and payloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from turnstone.ports.records import Get, Key, KeyPage, Operation, Range, Record, RecordPage


class RangeStore(Protocol):
    """A transactional store of records in sorted partitions.

    Reads see every write that returned before them, except `open_keys`, which may lag.
    Every method raises StoreUnavailable when the store is unreachable, throttled, full or read-only.
    """

    def get(self, key: Key) -> Record | None:
        """Return the record, None if missing."""

    def range(self, query: Range) -> RecordPage:
        """Return the next page of a range. A page may be shorter than `limit`; only `after` is None at the end."""

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        """Return the results of several reads, in parallel where the store supports that."""

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none; at most MAX_OPERATIONS, each on a key of its own.

        The nonce is stored with every record that is put or updated: a write whose condition fails, but which finds
        its own nonce, was applied before (its answer was lost) and succeeds. Without one, each call gets its own.

        Raises:
            Conflict: names the first operation whose condition failed.
        """

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in the order of their partitions."""

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Delete records of a partition, about `limit` at most, with their payloads; return whether none is left.

        Only that record if `sk` is given. Neither atomic nor conditional: for records without writers.
        """


class BlobStore(Protocol):
    """Payloads too large for a record."""

    def put(self, name: str, body: bytes) -> None:
        """Store the payload durably under a name of ASCII letters, digits, `-`, `_` and `/`; again is harmless."""

    def get(self, name: str) -> bytes | None:
        """Return the payload, None if missing. Raises StoreUnavailable if that is undecided."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload, in pieces where that costs nothing more. Raises LookupError if it is missing."""

    def delete(self, name: str) -> None:
        """Delete the payload; a missing payload is no error."""

    def clear(self, prefix: str, limit: int) -> bool:
        """Delete `limit` payloads at most whose names have the prefix; return whether none is left.

        The prefix is a folder, with its `/`, and optionally the beginning of a name in it.
        """
