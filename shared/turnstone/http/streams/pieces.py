"""Bytes of an answer in pieces: large enough for quick sending, small enough to hold one for each of many clients."""

from collections.abc import Iterable, Iterator

PIECE_BYTES = 64 * 1024
PARTS_AT_ONCE = 500


def cut(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the parts in pieces of PIECE_BYTES at most, reading the parts as they are needed.

    A piece also ends after PARTS_AT_ONCE parts, because each may take a while to draw.
    """
    piece = bytearray()
    for number, part in enumerate(parts, 1):
        if len(piece) + len(part) <= PIECE_BYTES:
            piece += part
        else:
            rest = memoryview(part)
            while len(piece) + len(rest) > PIECE_BYTES:
                room = PIECE_BYTES - len(piece)
                piece += rest[:room]
                rest = rest[room:]
                yield bytes(piece)
                piece.clear()
            piece += rest
        if piece and number % PARTS_AT_ONCE == 0:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
