"""Records of formats that this version cannot read: they keep their position; using them raises RecordTooNew."""

from collections.abc import Iterator, Mapping

from turnstone.domain.errors import RecordTooNew
from turnstone.ports.records import Key, Record, Scalar
from turnstone.store.layout.frames import NUMBER_BYTES, newer_format
from turnstone.store.layout.keys import kind_and_name
from turnstone.store.layout.lost_records import LostRecord


class NewerRecord(Record):
    """A record with key and revision, whose content and attributes raise RecordTooNew.

    It is not taken for a lost one: a reader that may not use it must not replace or delete it either.
    """

    __slots__ = ()

    @property
    def body(self) -> bytes:
        raise self.error

    @property
    def attributes(self) -> Mapping[str, Scalar]:
        raise self.error

    @property
    def error(self) -> RecordTooNew:
        """The error that names the record."""
        return too_new(self.key, super().body.decode())


def newer_record(record: Record, form: str) -> NewerRecord:
    """Return the record as one of that format."""
    return NewerRecord(record.key, form.encode(), {}, record.rev)


def too_new(key: Key, form: str) -> RecordTooNew:
    """Return the error about a record of that format."""
    return RecordTooNew(*kind_and_name(key), form)


def readable(record: Record) -> Record:
    """Return a small record as the database holds it. Raises RecordTooNew."""
    form = newer_format(record.body[:NUMBER_BYTES])
    if form is not None:
        raise too_new(record.key, form)
    return record


# what a list passes over
UNREADABLE = (LostRecord, NewerRecord)


def of_this_format(key: Key, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a body. Raises RecordTooNew, before the first, for a format that this version cannot read."""
    beginning = b""
    for piece in pieces:
        beginning += piece
        if len(beginning) >= NUMBER_BYTES:
            break
    if form := newer_format(beginning):
        raise too_new(key, form)
    yield beginning
    yield from pieces
