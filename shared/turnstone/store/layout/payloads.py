"""References of records to payloads outside of them: the name in the blob store, and the hash of the bytes."""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import NamedTuple


class Lost(Exception):
    """A payload is missing or damaged."""


UNDECODABLE = (Lost, ValueError, LookupError, TypeError, zlib.error)


class Payload(NamedTuple):
    """A record's reference to the blob store."""

    name: str
    sha256: str

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
    return Payload(fields["name"], fields["sha256"])


def pointer_to(name: str, payload: bytes) -> bytes:
    return json.dumps({"name": name, "sha256": sha256_of(payload), "size": len(payload)}).encode()


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
