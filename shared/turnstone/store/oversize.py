"""Bodies of any size in a RangeStore: compressed where that helps, in the blob store where a record can't hold them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from uuid import uuid4

from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports import BlobStore, RangeStore
from turnstone.records import Get, Key, KeyPage, Operation, Page, Put, Range, Record, Scalar, Update

COMPRESS_ABOVE_BYTES = 768
RECORD_BYTES = 350 * 1024
PAGE_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 16 * 1024
UNDECODABLE = (ValueError, LookupError, TypeError, zlib.error)
UNKNOWN_FORM = "this Turnstone does not know the form"

_CODEC = "codec"
_ZLIB, _BLOB, _ZLIB_BLOB = "zlib", "blob", "zlib+blob"


class OversizeStore:
    """A RangeStore for bodies of any size, over one whose records are limited.

    A body that is too large goes to the blob store before the record that points to it is written, under a name of its
    own: each write has new blobs, which are removed if the write is refused. The blobs of a partition share a prefix.

    A blob whose record was replaced or deleted, or whose write had no answer, is left for a clean-up job. That job must
    spare young blobs: a put stores its blob before its record, and a reader may be about to fetch what the record it
    has just read points to.

    The attribute `codec` tells how a body is stored; it belongs to this class and is never seen outside.
    """

    def __init__(self, store: RangeStore, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs

    def get(self, key: Key) -> Record | None:
        """Return the record, None if there is none."""
        return self._decoded_or_none(self._store.get(key))

    def range(self, query: Range) -> Page:
        """Return the next page of a range; shorter than the store's own when its bodies are large."""
        return self._page(query, self._store.range(query))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[Page]]:
        """Return the answers to several reads, made at the same time where the store allows it."""
        records, pages = self._store.gather(gets, ranges)
        return (
            [self._got(get, record) for get, record in zip(gets, records, strict=True)],
            [self._page(query, page) for query, page in zip(ranges, pages, strict=True)],
        )

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        """Apply all operations or none.

        Raises:
            Conflict: names the first operation whose condition failed.
            ValueError: an operation sets `codec`, or the store accepts no such operations.
        """
        blobs: list[str] = []
        encoded = [self._encoded(operation, blobs) for operation in operations]
        try:
            self._store.write(encoded, nonce)
        except Conflict as conflict:
            for name in blobs:
                self._blobs.delete(name)
            raise Conflict(conflict.operation, conflict.key, self._decoded_or_none(conflict.found)) from conflict

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        """Return keys of the records whose attribute `open` equals the shard, in key order."""
        return self._store.open_keys(shard, limit, after)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        """Remove records of a partition, or that one record, then every payload they ever had; tell if none is left."""
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
        # The default level: as fast as level 1 up to 3 KB (measured), and 3 to 10 % less to store and to pay for.
        compressed = zlib.compress(operation.body)
        smaller = len(compressed) < len(operation.body)
        stored = compressed if smaller else operation.body
        if len(stored) > RECORD_BYTES or operation.is_apart:
            name, pointer = self._put_blob(operation.key, stored)
            blobs.append(name)
            return _with_codec(operation, pointer, _ZLIB_BLOB if smaller else _BLOB)
        return _with_codec(operation, compressed, _ZLIB) if smaller else operation

    def _put_blob(self, key: Key, payload: bytes) -> tuple[str, bytes]:
        content = _sha256(payload)
        name = f"{_beginning(key)}{uuid4().hex}"
        self._blobs.put(name, payload)
        return name, json.dumps({"name": name, "sha256": content, "size": len(payload)}).encode()

    def _got(self, get: Get, record: Record | None) -> Record | None:
        if record is None or get.held_bytes is None:
            return self._decoded_or_none(record)
        return self._in_pieces(record)

    def _page(self, query: Range, page: Page) -> Page:
        if query.held_bytes is None:
            return self._decoded_page(page)
        return page._replace(records=tuple(map(self._in_pieces, page.records)))

    def _in_pieces(self, record: Record) -> Record:
        codec = record.attributes.get(_CODEC)
        if codec is None:
            return record
        pieces = partial(self._pieces, record.key, codec, record.body)
        return Record(record.key, b"", _without_codec(record.attributes), record.rev, pieces)

    def _pieces(self, key: Key, codec: Scalar, stored: bytes) -> Iterator[bytes]:
        try:
            if codec == _ZLIB:
                yield from _inflated((stored,))
            elif codec == _BLOB:
                yield from self._blob_pieces(stored)
            elif codec == _ZLIB_BLOB:
                yield from _inflated(self._blob_pieces(stored))
            else:
                raise ValueError(UNKNOWN_FORM)
        except UNDECODABLE as exc:
            raise _unreadable(key, codec, exc) from exc

    def _decoded_page(self, page: Page) -> Page:
        # What fits in one answer of the store may be hundreds of blobs: never hold more than a few at once.
        records: list[Record] = []
        size_bytes = 0
        for record in page.records:
            if size_bytes >= PAGE_BYTES:
                return Page(tuple(records), records[-1].key.sk)
            records.append(self._decoded(record))
            size_bytes += len(records[-1].body)
        return Page(tuple(records), page.after)

    def _decoded_or_none(self, record: Record | None) -> Record | None:
        return None if record is None else self._decoded(record)

    def _decoded(self, record: Record) -> Record:
        codec = record.attributes.get(_CODEC)
        if codec is None:
            return record
        try:
            body = self._body(codec, record.body)
        except UNDECODABLE as exc:
            raise _unreadable(record.key, codec, exc) from exc
        return Record(record.key, body, _without_codec(record.attributes), record.rev)

    def _body(self, codec: Scalar, stored: bytes) -> bytes:
        if codec == _ZLIB:
            return zlib.decompress(stored)
        if codec == _BLOB:
            return self._blob(stored)
        if codec == _ZLIB_BLOB:
            return zlib.decompress(self._blob(stored))
        raise ValueError(UNKNOWN_FORM)

    def _blob(self, pointer: bytes) -> bytes:
        fields = json.loads(pointer)
        payload = self._blobs.get(fields["name"])
        if _sha256(payload) != fields["sha256"]:
            raise ValueError(_not_as_stored(fields["name"]))
        return payload

    def _blob_pieces(self, pointer: bytes) -> Iterator[bytes]:
        """Yield the payload in pieces; the last one only if all of them are what was stored."""
        fields = json.loads(pointer)
        digest = hashlib.sha256()
        last = b""
        for piece in self._blobs.pieces(fields["name"]):
            if last:
                yield last
            digest.update(piece)
            last = piece
        if digest.hexdigest() != fields["sha256"]:
            raise ValueError(_not_as_stored(fields["name"]))
        yield last


def _inflated(compressed: Iterable[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj()
    for rest in compressed:
        while rest and not inflater.eof:
            yield inflater.decompress(rest, PIECE_BYTES)
            rest = inflater.unconsumed_tail
    while not inflater.eof:  # what it took in, but had no room to give out
        piece = inflater.decompress(b"", PIECE_BYTES)
        if not piece:
            raise ValueError("the compressed body ends too early")
        yield piece


def _unreadable(key: Key, codec: Scalar, problem: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the body of {key!r}, stored as {codec!r}, can't be read: {problem}")


def _without_codec(attributes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in attributes.items() if name != _CODEC}


def _not_as_stored(name: str) -> str:
    return f"the payload {name!r} is not the one that was stored"


def _folder(pk: str) -> str:
    return _sha256(pk.encode())[:32]


def _beginning(key: Key) -> str:
    """Return what the names of all payloads begin with that the record has, or had."""
    return f"{_folder(key.pk)}/{_sha256(key.sk.encode())[:32]}-"


def _with_codec(put: Put, body: bytes, codec: str) -> Put:
    return put._replace(body=body, attributes={**put.attributes, _CODEC: codec})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
