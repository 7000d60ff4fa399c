"""Ended turns as wire JSON, a large one in pieces."""

from collections.abc import Callable, Iterator
from itertools import chain

from turnstone.records import Record
from turnstone.store.frames import wire_part, wire_pieces


class LargeTurn:
    """A turn that is not held whole. It can be iterated again: it is read anew then, and an ended turn stays."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], begun: Iterator[bytes]) -> None:
        """Take what reads the body, and a reading that has begun, for the first iteration."""
        self._pieces = pieces
        self._begun: Iterator[bytes] | None = begun

    def __iter__(self) -> Iterator[bytes]:
        begun, self._begun = self._begun, None
        return wire_pieces(self._pieces() if begun is None else begun)


WireTurn = bytes | LargeTurn


def wire_turn(record: Record) -> WireTurn:
    """Return the turn of the record, whole if it is small. Raises ContentLost."""
    if record.pieces is None:
        return wire_part(record.body)
    pieces = record.pieces()
    first, second = next(pieces), next(pieces, None)
    return wire_part(first) if second is None else LargeTurn(record.pieces, chain((first, second), pieces))
