"""Bodies of any size in a RangeStore: compressed where that helps, in the blob store where a record can't hold them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from turnstone.domain.errors import Conflict, StoreUnavailable
from turnstone.ports import BlobStore, RangeStore
from turnstone.records import Get, Key, KeyPage, Operation, Page, Put, Range, Record, Scalar, Update

COMPRESS_ABOVE_BYTES = 768
RECORD_BYTES = 350 * 1024
PAGE_BYTES = 8 * 1024 * 1024

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
        return self._decoded_page(self._store.range(query))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[Page]]:
        """Return the answers to several reads, made at the same time where the store allows it."""
        records, pages = self._store.gather(gets, ranges)
        return [self._decoded_or_none(record) for record in records], [self._decoded_page(page) for page in pages]

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
        except (ValueError, LookupError, TypeError, zlib.error) as exc:
            raise StoreUnavailable(f"the body of {record.key!r}, stored as {codec!r}, can't be read: {exc}") from exc
        attributes = {name: value for name, value in record.attributes.items() if name != _CODEC}
        return Record(record.key, body, attributes, record.rev)

    def _body(self, codec: Scalar, stored: bytes) -> bytes:
        if codec == _ZLIB:
            return zlib.decompress(stored)
        if codec == _BLOB:
            return self._blob(stored)
        if codec == _ZLIB_BLOB:
            return zlib.decompress(self._blob(stored))
        raise ValueError("this Turnstone does not know the form")

    def _blob(self, pointer: bytes) -> bytes:
        fields = json.loads(pointer)
        payload = self._blobs.get(fields["name"])
        if _sha256(payload) != fields["sha256"]:
            raise ValueError(f"the payload {fields['name']!r} is not the one that was stored")
        return payload


def _folder(pk: str) -> str:
    return _sha256(pk.encode())[:32]


def _beginning(key: Key) -> str:
    """Return what the names of all payloads begin with that the record has, or had."""
    return f"{_folder(key.pk)}/{_sha256(key.sk.encode())[:32]}-"


def _with_codec(put: Put, body: bytes, codec: str) -> Put:
    return put._replace(body=body, attributes={**put.attributes, _CODEC: codec})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Payload(NamedTuple):
    """What a record refers to in the blob store."""

    name: str
    sha256: str

    def check(self, payload: bytes) -> None:
        """Raise StoreUnavailable if these are not the bytes that were stored."""
        if _sha256(payload) != self.sha256:
            raise StoreUnavailable(f"the payload {self.name!r} is not the one that was stored")


# The attribute of the records that refer to a payload, and its values there.
REFERRING = (_CODEC, (_BLOB, _ZLIB_BLOB))


def payload_of(record: Record) -> Payload:
    """Return the payload of a record that has one of these values. Raises StoreUnavailable."""
    try:
        fields = json.loads(record.body)
        return Payload(fields["name"], fields["sha256"])
    except (ValueError, LookupError, TypeError) as exc:
        raise StoreUnavailable(f"the record {record.key!r} names no payload that can be found: {exc}") from exc
