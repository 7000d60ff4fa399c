"""Format of a record's body: one line of private JSON, then one line of wire JSON.

Both lines are compact, so the first line feed separates them, and a reader of whole sessions can pass the second
line on without parsing it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from turnstone.ports.records import Scalar

SCHEMA = 1
SCHEMA_FIELD = "v"


def frame(private: dict[str, Any], wire: bytes) -> bytes:
    """Return a record's body from its private part and its wire JSON."""
    return to_json({SCHEMA_FIELD: SCHEMA, **private}) + b"\n" + wire


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
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_of_attribute(value: Scalar | None) -> datetime | None:
    """Return the time in a promoted attribute, None if it is not set."""
    return None if value is None else datetime.fromisoformat(str(value))
