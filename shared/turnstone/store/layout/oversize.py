"""Bodies of any size in a RangeStore: compressed if that helps, in the blob store if a record is too small."""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from turnstone.domain.errors import Conflict, ContentLost, NotFound, StoreUnavailable
from turnstone.ports.records import Get, Key, KeyPage, Operation, Put, Range, Record, RecordPage, Scalar, Update
from turnstone.ports.storage import BlobStore, RangeStore
from turnstone.store.layout.frames import NUMBER_BYTES, newer_format
from turnstone.store.layout.keys import kind_and_name
from turnstone.store.layout.lost_records import LossLog, LostRecord
from turnstone.store.layout.newer_records import UNREADABLE, newer_record, of_this_format, too_new
from turnstone.store.layout.payloads import (
    UNDECODABLE,
    Lost,
    Payload,
    deflated,
    inflated,
    payload_from,
    payload_in,
    pointer_to,
    sha256_of,
)
from turnstone.store.layout.recent_bodies import RecentBodies

if TYPE_CHECKING:
    from turnstone.store.layout.blob_reads import ReadAhead

log = logging.getLogger(__name__)
Result = TypeVar("Result")
FetchedPayloads = Mapping[str, Callable[[], bytes | None]]
NOTHING_FETCHED: FetchedPayloads = MappingProxyType({})
COMPRESS_ABOVE_BYTES = 768
RECORD_BYTES = 350 * 1024
PAGE_BYTES = 8 * 1024 * 1024
AHEAD_BYTES = PAGE_BYTES  # payloads fetched ahead of a reader of pieces, where each request takes long
BLOBS_AT_ONCE = 8  # a page holds these at most beyond its limit
READS = 4  # for a record that is replaced each time before its payload is read

_CODEC = "codec"
_CODECS = _ZLIB, _BLOB, _ZLIB_BLOB = "zlib", "blob", "zlib+blob"


class OversizeStore:
    """RangeStore for bodies of any size, over one with limited records.

    A body that is too large goes to the blob store before its record is written, under a name of its own: each write
    has new blobs, which are removed if the write is refused. The blobs of a partition share a prefix.

    A blob whose record was replaced, or whose write had no answer, is left for a clean-up job. That job must spare
    young blobs: a put stores its blob before its record, and a copy of the data may be in progress.

    A record whose blob is missing or damaged is read again, because it may have been replaced or deleted between the
    two reads. If it is unchanged it is returned as a LostRecord.

    The attribute `codec` states the form of a body; it belongs to this class and is never visible outside. A record
    with an unrecognised one, or whose body has a newer format than this version, is returned as a NewerRecord.
    """

    def __init__(self, store: RangeStore, blobs: BlobStore, ahead_bytes: int = 0) -> None:
        """Fetch so many bytes ahead for each reader of pieces; 0 where reads are fast, or readers are many."""
        self._store = store
        self._blobs = blobs
        self._ahead_bytes = ahead_bytes
        self._losses = LossLog()
        self._recent = RecentBodies()

    def get(self, key: Key) -> Record | None:
        """Return the record, None if missing."""
        return self._decoded_or_none(self._store.get(key))

    def range(self, query: Range) -> RecordPage:
        """Return the next page of a range; shorter than the store's own when its bodies are large."""
        return self._page(query, self._store.range(query))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        """Return the results of several reads, in parallel where the store supports that."""
        records, pages = self._store.gather(gets, ranges)
        whole = [record for get, record in zip(gets, records, strict=True) if record and get.held_bytes is None]
        fetched = self._fetched(whole)
        in_pieces = [record for get, record in zip(gets, records, strict=True) if record and get.held_bytes is not None]
        ahead = self._read_ahead(in_pieces)
        return (
            [self._got(get, record, fetched, ahead) for get, record in zip(gets, records, strict=True)],
            [self._page(query, page) for query, page in zip(ranges, pages, strict=True)],
        )

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none.

        Raises:
            Conflict: names the first operation whose condition failed.
            ValueError: an operation sets `codec`, or the store accepts no such operations.
        """
        blobs: list[str] = []
        try:
            encoded = [self._encoded(operation, blobs) for operation in operations]
        except (StoreUnavailable, ValueError):
            self._remove(blobs)
            raise
        try:
            self._store.write(encoded, nonce)
        except Conflict as conflict:
            self._remove(blobs)
            raise Conflict(conflict.operation, conflict.key, self._decoded_or_none(conflict.found)) from conflict
        except ValueError:
            self._remove(blobs)
            raise
        except StoreUnavailable as unavailable:
            if blobs and not unavailable.may_be_applied_later:
                self._remove_unnamed(blobs, encoded)
            raise

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in key order."""
        return self._store.open_keys(shard, limit, after)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Delete records of a partition, or one record, then all payloads they ever had; return if none is left."""
        if not self._store.clear(pk, limit, sk):
            return False
        return self._blobs.clear(f"{_folder(pk)}/" if sk is None else _beginning(Key(pk, sk)), limit)

    def _encoded(self, operation: Operation, blobs: list[str]) -> Operation:
        if isinstance(operation, Put | Update) and _CODEC in operation.attributes:
            raise ValueError(f"the attribute {_CODEC!r} of {operation.key!r} is not the caller's")
        if not isinstance(operation, Put):
            return operation
        if len(operation.body) <= COMPRESS_ABOVE_BYTES and not operation.is_apart:
            return operation
        compressed = deflated(operation.body, operation.is_apart)
        smaller = len(compressed) < len(operation.body)
        stored = compressed if smaller else operation.body
        if len(stored) > RECORD_BYTES or operation.is_apart:
            blobs.append(f"{_beginning(operation.key)}{uuid4().hex}")
            self._blobs.put(blobs[-1], stored)
            return _with_codec(operation, pointer_to(blobs[-1], stored), _ZLIB_BLOB if smaller else _BLOB)
        return _with_codec(operation, compressed, _ZLIB) if smaller else operation

    def _remove(self, blobs: Iterable[str]) -> None:
        """Delete unreferenced blobs; the clean-up job deletes the ones that fail here."""
        for name in blobs:
            try:
                self._blobs.delete(name)
            except StoreUnavailable as unavailable:
                log.warning("cannot remove payload %r of a refused write: %s", name, unavailable)

    def _remove_unnamed(self, blobs: Sequence[str], encoded: Sequence[Operation]) -> None:
        """Delete the blobs of a failed write that its stored records do not reference."""
        keys = [operation.key for operation in encoded if isinstance(operation, Put) and _CODEC in operation.attributes]
        try:
            found = [payload_of(record) for record in map(self._store.get, keys) if record is not None]
        except StoreUnavailable as unavailable:
            log.warning("cannot remove payloads of a failed write, %r: %s", blobs, unavailable)
        else:
            named = {payload.name for payload in found if payload is not None}
            self._remove(name for name in blobs if name not in named)

    def _got(self, get: Get, record: Record | None, fetched: FetchedPayloads, ahead: ReadAhead | None) -> Record | None:
        if record is None:
            return None
        return self._decoded(record, fetched) if get.held_bytes is None else self._in_pieces(record, ahead)

    def _fetched(self, records: Sequence[Record]) -> FetchedPayloads:
        """Return the payloads of these records, fetched at the same time; none where there are fewer than two."""
        names = [payload.name for record in records if (payload := payload_of(record)) is not None]
        if len(names) < 2:
            return NOTHING_FETCHED
        from turnstone.store.layout.blob_reads import at_once  # rare, and most handlers never need its threads

        return at_once(self._blobs.get, names)

    def _page(self, query: Range, page: RecordPage) -> RecordPage:
        if query.held_bytes is None:
            return self._decoded_page(page)
        ahead = self._read_ahead(page.records)
        return page._replace(records=tuple(self._in_pieces(record, ahead) for record in page.records))

    def _read_ahead(self, records: Sequence[Record]) -> ReadAhead | None:
        """Return the source of these records' payloads, None where nothing is fetched ahead."""
        if not self._ahead_bytes or len(records) < 2:
            return None
        found = [payload for record in records if (payload := payload_of(record)) is not None and payload.size_bytes]
        if len(found) < 2:
            return None
        from turnstone.store.layout.blob_reads import ReadAhead

        return ReadAhead(self._blobs.get, {each.name: each.size_bytes for each in found}, self._ahead_bytes)

    def _in_pieces(self, record: Record, ahead: ReadAhead | None) -> Record:
        codec = record.attributes.get(_CODEC)
        if codec is None or codec not in _CODECS:
            return self._readable(record) if codec is None else self._newer(record, str(codec))
        pieces = _Pieces(record, partial(self._whole, ahead), partial(self._stored_pieces, ahead))
        return Record(record.key, b"", _without_codec(record.attributes), record.rev, pieces)

    def _whole(
        self, ahead: ReadAhead | None, record: Record, consume: Callable[[Iterator[bytes]], Result]
    ) -> tuple[Record, Result]:
        """Return the record from the last successful read, and the consumer's result for its body.

        Raises:
            ContentLost: the body is lost.
            NotFound: the record no longer exists.
        """
        for _ in range(READS):
            try:
                return record, consume(of_this_format(record.key, self._stored_pieces(ahead, record)))
            except UNDECODABLE as reason:
                again = self._again(record, reason)
                if again is None:
                    raise NotFound(*kind_and_name(record.key)) from reason
                if isinstance(again, LostRecord):
                    raise ContentLost(*kind_and_name(record.key)) from reason
                record = again
        raise _changing(record)

    def _stored_pieces(self, ahead: ReadAhead | None, record: Record) -> Iterator[bytes]:
        """Yield the body. Raises one of UNDECODABLE, at the end at the latest, if it is not the stored one."""
        codec = record.attributes.get(_CODEC)
        if codec is None:
            yield record.body
        elif codec == _ZLIB:
            yield from inflated((record.body,))
        elif codec == _BLOB:
            yield from self._blob_pieces(ahead, record.body)
        elif codec == _ZLIB_BLOB:
            yield from inflated(self._blob_pieces(ahead, record.body))
        else:
            raise too_new(record.key, str(codec))

    def _blob_pieces(self, ahead: ReadAhead | None, pointer: bytes) -> Iterator[bytes]:
        """Yield the payload in pieces; the last one only after all are verified."""
        payload = payload_from(pointer)
        digest = hashlib.sha256()
        last = b""
        source = self._blobs if ahead is None or payload.name not in ahead else ahead
        for piece in source.pieces(payload.name):
            if last:
                yield last
            digest.update(piece)
            last = piece
        if digest.hexdigest() != payload.sha256:
            raise Lost(f"the payload {payload.name!r} is not the one that was stored")
        yield last

    def _decoded_page(self, page: RecordPage) -> RecordPage:
        # One answer of the store may reference hundreds of blobs: never hold more than a few at once.
        records: list[Record] = []
        size_bytes = 0
        fetched = NOTHING_FETCHED
        for index, record in enumerate(page.records):
            if size_bytes >= PAGE_BYTES:
                return RecordPage(tuple(records), page.records[index - 1].key.sk)
            if index % BLOBS_AT_ONCE == 0:
                fetched = self._fetched(page.records[index : index + BLOBS_AT_ONCE])
            decoded = self._decoded(record, fetched)
            if decoded is not None:
                records.append(decoded)
                size_bytes += 0 if isinstance(decoded, UNREADABLE) else len(decoded.body)
        return RecordPage(tuple(records), page.after)

    def _decoded_or_none(self, record: Record | None) -> Record | None:
        return None if record is None else self._decoded(record)

    def _decoded(self, record: Record, fetched: FetchedPayloads = NOTHING_FETCHED) -> Record | None:
        """Return the record with its body, or None if it no longer exists."""
        for _ in range(READS):
            codec = record.attributes.get(_CODEC)
            if codec is None:
                return self._readable(record)
            if codec not in _CODECS:
                return self._newer(record, str(codec))
            try:
                body = self._body(codec, record, fetched)
            except UNDECODABLE as reason:
                again = self._again(record, reason)
                if again is None or isinstance(again, LostRecord):
                    return again
                record = again
            else:
                return self._readable(Record(record.key, body, _without_codec(record.attributes), record.rev))
        raise _changing(record)

    def _readable(self, record: Record) -> Record:
        """Return the record, as a NewerRecord if its format is newer than this version."""
        form = newer_format(record.body[:NUMBER_BYTES])
        return record if form is None else self._newer(record, form)

    def _newer(self, record: Record, form: str) -> Record:
        self._losses.note(record, f"a newer version of Turnstone stored it, in format {form}", "cannot be read")
        return newer_record(record, form)

    def _again(self, record: Record, reason: Exception) -> Record | None:
        """Return the current record, a LostRecord if it is unchanged, None if it no longer exists."""
        again = self._store.get(record.key)
        if again is None or (again.body, again.attributes.get(_CODEC)) != (record.body, record.attributes.get(_CODEC)):
            return again
        self._losses.note(record, reason)
        return LostRecord(record.key, b"", _without_codec(record.attributes), record.rev)

    def _body(self, codec: Scalar, record: Record, fetched: FetchedPayloads) -> bytes:
        if codec == _ZLIB:
            return self._recent.inflated(record.body)
        if codec == _BLOB:
            return self._blob(record.body, fetched)
        return zlib.decompress(self._blob(record.body, fetched))

    def _blob(self, pointer: bytes, fetched: FetchedPayloads) -> bytes:
        payload = payload_from(pointer)
        # each attempt to read a record names another payload, or finds this one missing for good
        found = fetched.get(payload.name)
        body = self._blobs.get(payload.name) if found is None else found()
        if body is None:
            raise Lost(f"the payload {payload.name!r} is missing")
        if not payload.is_whole(body):
            raise Lost(f"the payload {payload.name!r} is not the one that was stored")
        return body


class _Pieces:
    """The body of a record in pieces, see `Pieces`."""

    def __init__(
        self,
        record: Record,
        whole: Callable[[Record, Callable[[Iterator[bytes]], Any]], tuple[Record, Any]],
        stored: Callable[[Record], Iterator[bytes]],
    ) -> None:
        self._record = record
        self._whole = whole
        self._stored = stored
        self._is_verified = False

    def read_by(self, consume: Callable[[Iterator[bytes]], Result]) -> Result:
        self._record, made = self._whole(self._record, consume)
        self._is_verified = True
        result: Result = made
        return result

    def __call__(self) -> Iterator[bytes]:
        if not self._is_verified:
            only = self.read_by(_only_piece)
            if only is not None:
                yield only
                return
        try:
            yield from self._stored(self._record)  # read again: the reader cannot hold it
        except UNDECODABLE as reason:
            raise StoreUnavailable(
                f"the body of {self._record.key!r} went away while it was read: {reason}"
            ) from reason


def _only_piece(pieces: Iterator[bytes]) -> bytes | None:
    """Return the piece if it is the only one, after verifying that all exist."""
    first, second = next(pieces), next(pieces, None)
    deque(pieces, maxlen=0)
    return first if second is None else None


# The attribute of records that reference a payload, and its values there.
REFERRING = (_CODEC, (_BLOB, _ZLIB_BLOB))


def payload_of(record: Record) -> Payload | None:
    """Return the payload referenced by a stored record, None without one."""
    return payload_in(record.body) if record.attributes.get(_CODEC) in (_BLOB, _ZLIB_BLOB) else None


def _changing(record: Record) -> StoreUnavailable:
    return StoreUnavailable(f"the record {record.key!r} changes faster than its payload can be read, try again")


def _without_codec(attributes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in attributes.items() if name != _CODEC}


def _folder(pk: str) -> str:
    return sha256_of(pk.encode())[:32]


def _beginning(key: Key) -> str:
    """Return the common prefix of the names of all payloads that the record has, or had."""
    return f"{_folder(key.pk)}/{sha256_of(key.sk.encode())[:32]}-"


def _with_codec(put: Put, body: bytes, codec: str) -> Put:
    return put._replace(body=body, attributes={**put.attributes, _CODEC: codec})
