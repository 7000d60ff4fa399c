"""Leave long texts of records in the store until they are sent: many records may be read at a time.

Marks replace texts on the level of JSON alone, independent of the models of records and answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from secrets import token_hex

from turnstone.domain.errors import ContentLost, StoreUnavailable
from turnstone.domain.values.content import Restore
from turnstone.ports.records import Record
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.sessions.turn_records import STATUS, is_terminal, keeps_details

LONG_BYTES = 64 * 1024  # of JSON, between its quotes
IN_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)  # up to its end, or the part of it in a piece
QUOTE = b'"'


def with_long_texts_left(record: Record) -> tuple[Record, Restore | None]:
    """Return the record with its body, and the function that restores the long texts in JSON derived from it.

    The function is None without a long text, if the record's turn may still change, or if it keeps details: its texts
    are cut before they become JSON.
    """
    if record.pieces is None:
        return record, None
    try:
        if STATUS in record.attributes and not is_terminal(record):
            return record._replace(body=record.pieces.read_by(b"".join), pieces=None), None
        body = record.pieces.read_by(_abridged)
        if isinstance(body, _Abridged) and STATUS in record.attributes and keeps_details(bytes(body.body)):
            body = record.pieces.read_by(b"".join)
    except ContentLost:
        return LostRecord(record.key, b"", record.attributes, record.rev), None
    if isinstance(body, bytes):
        return record._replace(body=body, pieces=None), None
    restore = _LongTexts(record.pieces, body).restored if body.spans else None
    return record._replace(body=bytes(body.body), pieces=None), restore


def _abridged(pieces: Iterator[bytes]) -> bytes | _Abridged:
    """Return the text, complete if it is too short for a long string."""
    beginning = bytearray()
    for piece in pieces:
        beginning += piece
        if len(beginning) > LONG_BYTES:
            return _Abridged(chain((bytes(beginning),), pieces))
    return bytes(beginning)


class _Abridged:
    """A JSON text with marks in place of long strings.

    Attributes:
        mark: the prefix of marks, random, so that no stored text can contain it.
        spans: the start and end of each mark's string in the whole text, in bytes.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.body = bytearray()
        self.mark = token_hex(16).encode()
        self.spans: list[tuple[int, int]] = []
        self._offset = 0  # in the current piece
        self._begins_at: int | None = None  # in the current string
        self._kept = 0  # in the body, before the current string
        self._is_escaped = False  # whether the previous piece ended within an escape
        for piece in pieces:
            at = 0
            while at < len(piece):
                at = self._outside(piece, at) if self._begins_at is None else self._inside(piece, at, self._begins_at)
            self._offset += len(piece)

    def _outside(self, piece: bytes, at: int) -> int:
        """Consume the piece up to the next string; return the next position."""
        end = piece.find(QUOTE, at) + 1
        if not end:
            self.body += piece[at:]
            return len(piece)
        self.body += piece[at:end]
        self._begins_at, self._kept = self._offset + end, len(self.body)
        return end

    def _inside(self, piece: bytes, at: int, begins_at: int) -> int:
        """Consume the piece up to the end of the string; return the next position."""
        begin = at + self._is_escaped
        found = IN_STRING.match(piece, begin)
        end = found.end() if found else begin
        if piece[end : end + 1] == QUOTE:
            self._is_escaped = False
            self.body += piece[at:end]
            if self._offset + end - begins_at > LONG_BYTES:
                del self.body[self._kept :]
                self.body += b"%b:%d:" % (self.mark, len(self.spans))
                self.spans.append((begins_at, self._offset + end))
            self.body += QUOTE
            self._begins_at = None
            return end + 1
        self._is_escaped = end < len(piece)
        self.body += piece[at:]
        if len(self.body) - self._kept > LONG_BYTES:
            del self.body[self._kept :]
        return len(piece)


class _LongTexts:
    """The long strings of a stored text, read on demand."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], abridged: _Abridged) -> None:
        self._pieces = pieces
        self._spans = abridged.spans
        self._mark = re.compile(abridged.mark + rb":(\d+):")

    def restored(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the parts, JSON of which none ends within a mark, with the long strings in place of the marks."""
        text = _Text(self._pieces)
        for part in parts:
            at = 0
            for mark in self._mark.finditer(part):
                yield part[at : mark.start()]
                yield from text.between(*self._spans[int(mark[1])])
                at = mark.end()
            yield part[at:]


class _Text:
    """A stored text, read forward, and again from its start for an earlier position."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._pieces = pieces
        self._reading: Iterator[bytes] = iter(())
        self._piece = b""
        self._offset = 0  # of the piece

    def between(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `begin` to before `end`. Raises StoreUnavailable if they can no longer be read."""
        if begin < self._offset or not self._piece:
            self._reading, self._piece, self._offset = self._pieces(), b"", 0
        while True:
            ends_at = self._offset + len(self._piece)
            if ends_at > begin:
                yield self._piece[begin - self._offset : end - self._offset]
                begin = ends_at
            if ends_at >= end:
                return
            piece = next(self._reading, None)
            if piece is None:
                raise StoreUnavailable("a stored text ends before the place that was found in it")
            self._piece, self._offset = piece, ends_at
