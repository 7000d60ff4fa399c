"""Ended turns as wire JSON, large ones in pieces.

A failure is stored in the private part, and added to the wire JSON for readers.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from turnstone.domain.turns.failures import Failure, UnansweredStatus, turn_failure
from turnstone.domain.turns.turns import UNANSWERED, TurnStatus
from turnstone.ports.records import Record
from turnstone.store.layout.frames import private_part, wire_part, wire_pieces
from turnstone.store.layout.keys import turn_ref_of

END = b"}"


class LargeTurn:
    """An ended turn that is not held whole. Each iteration reads it again."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], begun: Iterator[bytes], tail: bytes = END) -> None:
        """Take the body's reader, a started reading for the first iteration, and the end of the JSON."""
        self._pieces = pieces
        self._begun: Iterator[bytes] | None = begun
        self._tail = tail

    def __iter__(self) -> Iterator[bytes]:
        begun, self._begun = self._begun, None
        wire = wire_pieces(self._pieces() if begun is None else begun)
        return wire if self._tail == END else _ending_with(self._tail, wire)


WireTurn = bytes | LargeTurn


def wire_turn(record: Record) -> WireTurn:
    """Return the record's turn, whole if it is small. Raises ContentLost."""
    return wire_of(record, UNANSWERED.get(TurnStatus(str(record.attributes["status"]))))


def wire_of(record: Record, status: UnansweredStatus | None = None) -> WireTurn:
    """Return a record's JSON, with the failure if its status is one without an answer. Raises ContentLost."""
    if record.pieces is None:
        return _whole(record, record.body, status)
    pieces = record.pieces()
    first = _with_private_part(pieces) if status is not None else next(pieces)
    second = next(pieces, None)
    if second is None:
        return _whole(record, first, status)
    tail = END if status is None else _tail(record, first, status)
    return LargeTurn(record.pieces, chain((first, second), pieces), tail)


def opened(record: Record) -> tuple[dict[str, Any], WireTurn]:
    """Return a record's private part, and its JSON, in pieces if it is large. Raises ContentLost, NotFound."""
    if record.pieces is None:
        return private_part(record.body), wire_part(record.body)
    pieces = record.pieces()
    beginning = _with_private_part(pieces)
    second = next(pieces, None)
    private = private_part(beginning)
    return private, wire_part(beginning) if second is None else LargeTurn(
        record.pieces, chain((beginning, second), pieces)
    )


def _with_private_part(pieces: Iterator[bytes]) -> bytes:
    """Return the first pieces, up to the one in which the private part ends; its texts may be long."""
    beginning = next(pieces)
    while b"\n" not in beginning:
        beginning += next(pieces)
    return beginning


def _whole(record: Record, body: bytes, status: UnansweredStatus | None) -> bytes:
    wire = wire_part(body)
    return wire if status is None else wire.removesuffix(END) + _tail(record, body, status)


def _tail(record: Record, begins: bytes, status: UnansweredStatus) -> bytes:
    """Return the end of the JSON of a turn without an answer."""
    failure_fields = private_part(begins).get("failure")
    failure = None if failure_fields is None else Failure.model_validate(failure_fields)
    shown = turn_failure(turn_ref_of(record.key).turn_id, status, failure)
    return b',"failure":' + shown.model_dump_json().encode() + END


def _ending_with(tail: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces, with that tail in place of the object's closing brace."""
    held = b""
    for piece in pieces:
        yield held + piece[:-1]
        held = piece[-1:]
    yield held.removesuffix(END) + tail
