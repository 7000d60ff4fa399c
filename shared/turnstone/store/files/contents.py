"""Contents of files: parts in pieces, each a payload of its own, under a header.

A content is begun with a job that cancels it unless it becomes whole in time. Pieces are written while the header is
pending, and become a file in the write that makes the header whole. So a crash at any point leaves a whole file, or
nothing but what that job removes. Small contents are stored in one write with their file, without a payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, ContentLost, NotFound
from turnstone.domain.jobs import Job
from turnstone.ports.records import Absent, AttributeIs, Check, Delete, Get, Operation, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.keys.files import (
    all_parts,
    file_key,
    file_partition,
    header_key,
    part_key,
    part_of,
    piece_key,
)
from turnstone.store.layout.frames import stamp, time_of_attribute
from turnstone.store.layout.ranges import pages

KIND = "file"
PIECE_BYTES = 4 * 1024 * 1024
SMALL_BYTES = 256 * 1024  # fits in a record even uncompressed
PIECES_AT_ONCE = 2
PARTS_AT_ONCE = 100
HELD_BYTES = 128 * 1024
CLEARED_AT_ONCE = 100
WHOLE_PART = "0"
PENDING = AttributeIs("status", "pending")
WHOLE = AttributeIs("status", "whole")


class ContentRef(NamedTuple):
    """A content; `name` is for errors: the id of its file or upload."""

    tenant: str
    content_id: str
    name: str = ""


class StoredPart(NamedTuple):
    """A part of a content."""

    part_id: str
    size_bytes: int

    @property
    def pieces(self) -> int:
        return -(-self.size_bytes // PIECE_BYTES)


class Header(NamedTuple):
    """The state of a content.

    Attributes:
        parts: in their order; none of a pending content.
        file_id: the file of a whole content.
        ends_at: when a pending content is cancelled, or the file of a whole one expires; None for never.
    """

    is_whole: bool
    parts: tuple[StoredPart, ...]
    file_id: str
    ends_at: datetime | None

    def is_over(self, now: datetime) -> bool:
        return self.ends_at is not None and now >= self.ends_at


class ContentClosed(Exception):
    """The content takes no more parts: it is whole, or cancelled."""


class FileContents:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def begin(self, ref: ContentRef, expiry: Job) -> None:
        """Begin a content, with the job that cancels it."""
        self._store.write(begun(ref, expiry))

    def add(self, ref: ContentRef, part_id: str, content: Iterable[bytes]) -> StoredPart:
        """Store the pieces of a part. Raises ContentClosed, and what `content` raises."""
        size_bytes = 0
        for number, piece in enumerate(cut(content, PIECE_BYTES)):
            put = Put(piece_key(*ref[:2], part_id, number), piece, is_apart=True)
            try:
                self._store.write([put, pending(ref)])
            except Conflict as conflict:
                raise ContentClosed from conflict
            size_bytes += len(piece)
        return StoredPart(part_id, size_bytes)

    def parts(self, ref: ContentRef, part_ids: Sequence[str]) -> list[StoredPart | None]:
        """Return the whole parts of these ids, None for each that is missing."""
        found: list[StoredPart | None] = []
        for start in range(0, len(part_ids), PARTS_AT_ONCE):
            some = part_ids[start : start + PARTS_AT_ONCE]
            records, _ = self._store.gather([Get(part_key(*ref[:2], each)) for each in some], [])
            found += [
                None if record is None else StoredPart(each, from_json(record.body)["size_bytes"])
                for each, record in zip(some, records, strict=True)
            ]
        return found

    def header(self, ref: ContentRef) -> Header | None:
        """Return the state of the content, None if it is cancelled."""
        record = self._store.get(header_key(*ref[:2]))
        return None if record is None else _header_in(record)

    def pieces(self, ref: ContentRef, parts: Iterable[StoredPart]) -> Iterator[bytes]:
        """Yield the bytes of the parts, some megabytes at a time. Raises NotFound if they are removed, ContentLost."""
        keys = [piece_key(*ref[:2], part.part_id, number) for part in parts for number in range(part.pieces)]
        for start in range(0, len(keys), PIECES_AT_ONCE):
            records, _ = self._store.gather([Get(key) for key in keys[start : start + PIECES_AT_ONCE]], [])
            while records:
                record = records.pop(0)
                if record is None:
                    raise NotFound(KIND, ref.name)
                try:
                    piece = record.body
                except ContentLost as lost:
                    raise ContentLost(KIND, ref.name) from lost
                del record
                yield piece

    def cancel(self, ref: ContentRef, cleaning: Job) -> None:
        """End a content that is not whole, and leave a job that removes its pieces. Raises ContentClosed."""
        try:
            self._store.write([Delete(header_key(*ref[:2]), (PENDING,)), put_job(cleaning)])
        except Conflict as conflict:
            raise ContentClosed from conflict

    def clear(self, ref: ContentRef, limit: int) -> bool:
        """Remove a cancelled content, about that number of records at most; return whether nothing is left."""
        return self._store.clear(file_partition(*ref[:2]), limit)

    def clear_unlisted(self, ref: ContentRef, header: Header) -> None:
        """Remove the parts of a whole content that its file does not have."""
        listed = {part.part_id for part in header.parts}
        for page in pages(self._store, all_parts(*ref[:2])._replace(held_bytes=HELD_BYTES)):
            for key in (record.key for record in page.records):
                if part_of(key.sk) not in listed:
                    while not self._store.clear(key.pk, CLEARED_AT_ONCE, key.sk):
                        pass


def begun(ref: ContentRef, expiry: Job) -> list[Operation]:
    """Return the writes that begin a content."""
    attributes = {PENDING.name: PENDING.value, "ends_at": stamp(expiry.due_at)}
    return [Put(header_key(*ref[:2]), b"{}", attributes, when=(Absent(),)), put_job(expiry)]


def pending(ref: ContentRef) -> Check:
    """Return the condition that the content takes parts."""
    return Check(header_key(*ref[:2]), (PENDING,))


def added(ref: ContentRef, part: StoredPart) -> list[Operation]:
    """Return the writes that record a part whose pieces are stored."""
    body = to_json({"size_bytes": part.size_bytes})
    return [Put(part_key(*ref[:2], part.part_id), body, when=(Absent(),)), pending(ref)]


def completed(ref: ContentRef, file_id: str, ends_at: datetime | None, parts: Sequence[StoredPart]) -> Put:
    """Return the write that makes a pending content that of a file."""
    return _whole(ref, file_id, ends_at, parts)._replace(when=(PENDING,))


def small(ref: ContentRef, file_id: str, ends_at: datetime | None, content: bytes) -> list[Operation]:
    """Return the writes of a whole content of `SMALL_BYTES` at most."""
    part = StoredPart(WHOLE_PART, len(content))
    pieces = [Put(piece_key(*ref[:2], WHOLE_PART, 0), content)] if content else []
    return [_whole(ref, file_id, ends_at, [part])._replace(when=(Absent(),)), *pieces]


def removed(ref: ContentRef, header: Header) -> list[Operation]:
    """Return the writes that end a content, with its file if it is whole."""
    condition = WHOLE if header.is_whole else PENDING
    file = [Delete(file_key(ref.tenant, header.file_id))] if header.is_whole else []
    return [Delete(header_key(*ref[:2]), (condition,)), *file]


def cut(content: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    """Yield the content in pieces of that size, the last one smaller."""
    piece = bytearray()
    for part in content:
        rest = memoryview(part)
        while len(rest) >= (room := size_bytes - len(piece)):
            piece += rest[:room]
            rest = rest[room:]
            yield bytes(piece)
            piece.clear()
        piece += rest
    if piece:
        yield bytes(piece)


def _whole(ref: ContentRef, file_id: str, ends_at: datetime | None, parts: Sequence[StoredPart]) -> Put:
    body = to_json({"file_id": file_id, "parts": [tuple(part) for part in parts]})
    until = {} if ends_at is None else {"ends_at": stamp(ends_at)}
    return Put(header_key(*ref[:2]), body, {WHOLE.name: WHOLE.value, **until})


def _header_in(record: Record) -> Header:
    fields = from_json(record.body)
    return Header(
        is_whole=record.attributes[WHOLE.name] == WHOLE.value,
        parts=tuple(StoredPart(*each) for each in fields.get("parts", ())),
        file_id=fields.get("file_id", ""),
        ends_at=time_of_attribute(record.attributes.get("ends_at")),
    )
