"""Ended turns as wire JSON, a large one in pieces.

Why a turn has no answer is stored among what only we see, and is added to what its readers are shown.
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
    """A turn that is not held whole. It can be iterated again: it is read anew then, and an ended turn stays."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], begun: Iterator[bytes], tail: bytes = END) -> None:
        """Take what reads the body, a reading that has begun, for the first iteration, and how the JSON shall end."""
        self._pieces = pieces
        self._begun: Iterator[bytes] | None = begun
        self._tail = tail

    def __iter__(self) -> Iterator[bytes]:
        begun, self._begun = self._begun, None
        wire = wire_pieces(self._pieces() if begun is None else begun)
        return wire if self._tail == END else _ending_with(self._tail, wire)


WireTurn = bytes | LargeTurn


def wire_turn(record: Record) -> WireTurn:
    """Return the turn of the record, whole if it is small. Raises ContentLost."""
    return wire_of(record, UNANSWERED.get(TurnStatus(str(record.attributes["status"]))))


def wire_of(record: Record, status: UnansweredStatus | None = None) -> WireTurn:
    """Return the JSON of a record, and why there is no answer in it if it has such a status. Raises ContentLost."""
    if record.pieces is None:
        return _whole(record, record.body, status)
    pieces = record.pieces()
    first, second = next(pieces), next(pieces, None)
    if second is None:
        return _whole(record, first, status)
    tail = END if status is None else _tail(record, first, status)
    return LargeTurn(record.pieces, chain((first, second), pieces), tail)


def opened(record: Record) -> tuple[dict[str, Any], WireTurn]:
    """Return what only we see of a record, and its JSON, in pieces if it is large. Raises ContentLost, NotFound."""
    if record.pieces is None:
        return private_part(record.body), wire_part(record.body)
    pieces = record.pieces()
    beginning = next(pieces)
    while b"\n" not in beginning:
        beginning += next(pieces)
    second = next(pieces, None)
    private = private_part(beginning)
    return private, wire_part(beginning) if second is None else LargeTurn(
        record.pieces, chain((beginning, second), pieces)
    )


def _whole(record: Record, body: bytes, status: UnansweredStatus | None) -> bytes:
    wire = wire_part(body)
    return wire if status is None else wire.removesuffix(END) + _tail(record, body, status)


def _tail(record: Record, begins: bytes, status: UnansweredStatus) -> bytes:
    """Return what the JSON of a turn without an answer ends with; of a body that only begins here, maybe no details."""
    told = private_part(begins).get("failure") if b"\n" in begins else None
    failure = None if told is None else Failure.model_validate(told)
    shown = turn_failure(turn_ref_of(record.key).turn_id, status, failure)
    return b',"failure":' + shown.model_dump_json().encode() + END


def _ending_with(tail: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces, whose last byte closes an object, with that tail in its place."""
    held = b""
    for piece in pieces:
        yield held + piece[:-1]
        held = piece[-1:]
    yield held.removesuffix(END) + tail
