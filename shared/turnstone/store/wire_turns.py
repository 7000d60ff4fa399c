"""Ended turns as wire JSON, a large one in pieces."""

from collections.abc import Callable, Iterator

from turnstone.records import Record
from turnstone.store.frames import wire_part, wire_pieces


class LargeTurn:
    """A turn that is not held whole; each iteration reads it again, which is safe because an ended turn stays."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return wire_pieces(self._pieces())


WireTurn = bytes | LargeTurn


def wire_turn(record: Record) -> WireTurn:
    """Return the turn of the record, whole if it is small."""
    if record.pieces is None:
        return wire_part(record.body)
    pieces = record.pieces()
    first = next(pieces)
    return wire_part(first) if next(pieces, None) is None else LargeTurn(record.pieces)
