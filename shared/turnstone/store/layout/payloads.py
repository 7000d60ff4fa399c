"""References of records to payloads outside of them: the name in the blob store, and the hash of the bytes."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PIECE_BYTES = 16 * 1024


class Lost(Exception):
    """A payload is missing or damaged."""


UNDECODABLE = (Lost, ValueError, LookupError, TypeError, zlib.error)


class Payload(NamedTuple):
    """A record's reference to the blob store; the size in bytes is 0 if unknown."""

    name: str
    sha256: str
    size_bytes: int = 0

    def is_whole(self, body: bytes) -> bool:
        """Return whether these are the stored bytes."""
        return sha256_of(body) == self.sha256


def payload_in(pointer: bytes) -> Payload | None:
    """Return the payload referenced by a record's body, None if unreadable."""
    try:
        return payload_from(pointer)
    except UNDECODABLE:
        return None


def payload_from(pointer: bytes) -> Payload:
    """Return the payload. Raises one of UNDECODABLE."""
    fields = json.loads(pointer)
    name, sha256 = fields["name"], fields["sha256"]
    size = fields.get("size")
    return Payload(name, sha256, size if isinstance(size, int) else 0)


def pointer_to(name: str, payload: bytes) -> bytes:
    return json.dumps({"name": name, "sha256": sha256_of(payload), "size": len(payload)}).encode()


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def inflated(compressed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the decompressed body in pieces. Raises one of UNDECODABLE for a damaged one."""
    inflater = zlib.decompressobj()
    for rest in compressed:
        while rest and not inflater.eof:
            yield inflater.decompress(rest, PIECE_BYTES)
            rest = inflater.unconsumed_tail
    while not inflater.eof:  # input consumed, but not yet decompressed
        piece = inflater.decompress(b"", PIECE_BYTES)
        if not piece:
            raise ValueError("the compressed body ends too early")
        yield piece
