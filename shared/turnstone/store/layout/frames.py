"""Format of a record's body: one line of private JSON, then one line of wire JSON.

Both lines are compact, so the first line feed separates them, and a reader of whole sessions can pass the second
line on without parsing it. Records without a private part are one line of JSON.

The number of the format is the first field of the first line, `v`; a record without it has format 1. A version that
stores a record in a form that earlier versions would misread writes a higher number, for that record alone.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from turnstone.ports.records import Scalar

SCHEMA = 1
SCHEMA_FIELD = "v"
_NUMBERED = b'{"v":'
_NUMBER = re.compile(rb'\{"v":(\d+)')
NUMBER_BYTES = 16  # of a body's start, enough to read the number


def frame(private: dict[str, Any], wire: bytes) -> bytes:
    """Return a record's body from its private part and its wire JSON."""
    return to_json({SCHEMA_FIELD: SCHEMA, **private}) + b"\n" + wire


def newer_format(beginning: bytes) -> str | None:
    """Return the number of a format that this version cannot read, None for all others, from a body's first bytes."""
    if not beginning.startswith(_NUMBERED):
        return None
    found = _NUMBER.match(beginning)
    return found[1].decode() if found and int(found[1]) > SCHEMA else None


def private_part(body: bytes) -> dict[str, Any]:
    """Return the private fields of a record's body."""
    fields: dict[str, Any] = from_json(body[: body.index(b"\n")])
    return fields


def wire_part(body: bytes) -> bytes:
    """Return the wire JSON, unchanged."""
    return body[body.index(b"\n") + 1 :]


def wire_pieces(body: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the wire JSON of a body in pieces."""
    for piece in body:
        if (end := piece.find(b"\n")) >= 0:
            yield piece[end + 1 :]
            break
    yield from body


def stamp(at: datetime) -> str:
    """Return the time as text of fixed width, which sorts by time; a state machine compares it, too."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_of_attribute(value: Scalar | None) -> datetime | None:
    """Return the time in a promoted attribute, None if it is not set."""
    return None if value is None else datetime.fromisoformat(str(value))
