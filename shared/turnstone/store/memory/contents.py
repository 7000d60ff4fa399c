"""Content of memory banks: a log of the newest operations, and segments that were folded from it.

The log has one record for each document inserted or dropped since the last fold. Segments are immutable and in the
order of their making; the manifest lists them. A document counts where it appears last: in the log, else in the newest
segment that contains or drops it. So an operation writes its own record only, and parallel ones never conflict.

A reader takes the log before the manifest: an operation folded in between appears in both, and is never missed.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.ids import moment_of
from turnstone.ports.records import AttributeIs, Check, Delete, Get, Key, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.layout.bank_keys import (
    MANIFEST,
    all_segments,
    index_key,
    log_and_manifest,
    log_key,
    manifest_key,
    page_key,
    segment_of,
)
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.layout.ranges import pages

Item = TypeVar("Item")
CHUNKS_OF_PAGE = 64
OPERATIONS_AT_ONCE = 96
BYTES_AT_ONCE = 2 * 1024 * 1024  # of a write, whose records are limited in sum
PAGES_AT_ONCE = 16
CLEARED_AT_ONCE = 100
HELD_BYTES = 128 * 1024
EXISTS = AttributeIs("status", "active")


class SegmentEntry(NamedTuple):
    """A segment in the manifest.

    Attributes:
        chunks: their number, those included that newer segments replace.
        dropped: documents deleted when it was folded: their chunks in older segments do not count.
    """

    name: str
    chunks: int
    dropped: tuple[str, ...] = ()


class Manifest(NamedTuple):
    """The segments of a bank, the oldest first, and the record's revision."""

    segments: tuple[SegmentEntry, ...]
    rev: int

    @property
    def chunks(self) -> int:
        """The number of chunks, replaced ones included until they are merged."""
        return sum(segment.chunks for segment in self.segments)


class BankChange(NamedTuple):
    """An operation on a document: its chunks and attributes, which replace all it had.

    Attributes:
        chunks: None if the document is dropped.
        attributes: values for filters, found with each of its chunks; they win over metadata of the same name.
    """

    document_id: str
    chunks: tuple[DocumentChunk, ...] | None
    attributes: Mapping[str, Any] = MappingProxyType({})


class LoggedChange(NamedTuple):
    """A stored change; `version` differs from that of every other one."""

    change: BankChange
    version: str


class View(NamedTuple):
    """The state of a bank: its log and its segments."""

    log: tuple[LoggedChange, ...]
    manifest: Manifest


class ChunkText(NamedTuple):
    """What a segment's index leaves to its pages of texts."""

    position: int
    tokens: int
    text: str


class SegmentGone(Exception):
    """A segment was merged into another since the list was read: read the list again."""


class Unlisted(Enum):
    """Unlisted segments that are left: none, only some too young to be removed, or others, too."""

    NONE = auto()
    YOUNG = auto()
    SOME = auto()


class BankContents:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def view(self, ref: BankRef) -> View:
        """Return the log and the list of segments. Raises NotFound."""
        return self.views([ref])[0]

    def views(self, refs: Sequence[BankRef]) -> list[View]:
        """Return log and list of segments of each bank, read at the same time. Raises NotFound."""
        ranges = [log_and_manifest(ref.tenant, ref.content_id) for ref in refs]
        _, firsts = self._store.gather([], ranges)
        return [
            _view_of(ref, [record for page in pages(self._store, query, first) for record in page.records])
            for ref, query, first in zip(refs, ranges, firsts, strict=True)
        ]

    def manifest(self, ref: BankRef) -> Manifest:
        """Return the list of segments. Raises NotFound."""
        record = self._store.get(manifest_key(ref.tenant, ref.content_id))
        if record is None:
            raise NotFound("memory bank", ref.bank_id)
        return _manifest_in(record)

    def append(self, ref: BankRef, changes: Sequence[BankChange], version: Callable[[], str]) -> None:
        """Store the changes, some at a time; each of them wholly or not. Raises NotFound for a deleted bank.

        Several changes of one document must be in several calls.
        """
        for some in _within_limits([_put(ref, change, version()) for change in changes]):
            writes: list[Operation] = [*some, Check(manifest_key(ref.tenant, ref.content_id), (EXISTS,))]
            try:
                self._store.write(writes)
            except Conflict as conflict:
                raise NotFound("memory bank", ref.bank_id) from conflict

    def is_repeated(self, ref: BankRef, attempt: Attempt, now: datetime) -> bool:
        """Return whether the request was completed before. Raises IdempotencyMismatch."""
        records, _ = self._store.gather(get_remembered(ref.tenant, attempt), []) if attempt.key else ([], [])
        return any(answer_in(record, attempt, now) is not None for record in records)

    def complete(self, ref: BankRef, attempt: Attempt, now: datetime) -> None:
        """Remember that the request was completed, if it has a key. Raises IdempotencyMismatch, NotFound."""
        if attempt.key is None:
            return
        try:
            Once(ref.tenant, attempt, {}, now).write(
                self._store, [Check(manifest_key(ref.tenant, ref.content_id), (EXISTS,))]
            )
        except Conflict as conflict:
            raise NotFound("memory bank", ref.bank_id) from conflict

    def put_segment(self, ref: BankRef, name: str, index: bytes, texts: Sequence[ChunkText], cleaning: Job) -> bool:
        """Store a segment, not listed yet, with the job that removes it if it never is.

        Returns:
            Whether it was stored: not if that job has removed it already.

        Raises:
            NotFound: the bank was deleted.
        """
        key = index_key(*ref[:2], name)
        exists = Check(manifest_key(ref.tenant, ref.content_id), (EXISTS,))
        try:
            self._store.write([Put(key, index, is_apart=True), put_job(cleaning), exists])
        except Conflict as conflict:
            raise NotFound("memory bank", ref.bank_id) from conflict
        try:
            for number, some in enumerate(_parts(texts, CHUNKS_OF_PAGE)):
                page = Put(page_key(*ref[:2], name, number), to_json(some), is_apart=True)
                self._store.write([page, Check(key, (RevIs(1),))])
        except Conflict:
            return False
        return True

    def commit(
        self, ref: BankRef, before: Manifest, segments: Sequence[SegmentEntry], folded: Sequence[LoggedChange] = ()
    ) -> bool:
        """List these segments, and remove the folded changes.

        Returns:
            Whether it was done: not if the list or a folded change has changed since it was read, or a segment that is
            new in the list is gone.
        """
        listed = {segment.name for segment in before.segments}
        key = manifest_key(ref.tenant, ref.content_id)
        writes: list[Operation] = [
            Put(key, _manifest_body(segments), {"status": "active"}, when=(RevIs(before.rev),)),
            *(Check(index_key(*ref[:2], each.name), (RevIs(1),)) for each in segments if each.name not in listed),
            *(
                Delete(log_key(*ref[:2], each.change.document_id), (AttributeIs("version", each.version),))
                for each in folded
            ),
        ]
        try:
            self._store.write(writes)
        except Conflict:
            return False
        return True

    def index(self, ref: BankRef, name: str) -> bytes:
        """Return the index of a segment. Raises SegmentGone, ContentLost."""
        record = self._store.get(index_key(*ref[:2], name))
        if record is None:
            raise SegmentGone
        return record.body

    def texts(self, ref: BankRef, numbered: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[ChunkText, ...]]:
        """Return the pages of these segments and numbers. Raises SegmentGone, ContentLost."""
        found: dict[tuple[str, int], tuple[ChunkText, ...]] = {}
        for some in _parts(numbered, PAGES_AT_ONCE):
            records, _ = self._store.gather([Get(page_key(*ref[:2], *each)) for each in some], [])
            for each, record in zip(some, records, strict=True):
                if record is None:
                    raise SegmentGone
                found[each] = tuple(ChunkText(*fields) for fields in from_json(record.body))
        return found

    def clear_unlisted(self, ref: BankRef, old: datetime, limit: int) -> Unlisted:
        """Remove segments that the manifest does not list, about that number of records at most.

        The index of a segment goes first, while the manifest is the one that was read: after that it can't be listed.

        Args:
            old: a segment made before is not completed any more.
        """
        record = self._store.get(manifest_key(ref.tenant, ref.content_id))
        if record is None:
            return Unlisted.NONE  # the bank is deleted, with a job that removes everything
        listed = {segment.name for segment in _manifest_in(record).segments}
        same_list = Check(record.key, (RevIs(record.rev),))
        left, fenced = Unlisted.NONE, None
        for key in self._segment_keys(ref):
            name = segment_of(key.sk)
            if name in listed:
                continue
            if moment_of(name) > old:
                left = Unlisted.YOUNG
                continue
            if limit <= 0:
                return Unlisted.SOME
            index = index_key(*ref[:2], name)
            if index != fenced:
                try:
                    self._store.write([Delete(index), same_list])
                except Conflict:
                    return Unlisted.SOME
                self._store.clear(index.pk, CLEARED_AT_ONCE, index.sk)
                fenced = index
            if key != index:
                self._store.clear(key.pk, CLEARED_AT_ONCE, key.sk)
            limit -= 1
        return left

    def _segment_keys(self, ref: BankRef) -> Iterator[Key]:
        for page in pages(self._store, all_segments(ref.tenant, ref.content_id)._replace(held_bytes=HELD_BYTES)):
            for record in page.records:
                yield record.key


def page_of(position: int) -> tuple[int, int]:
    """Return the number of the page with that chunk's text, and its index there."""
    return divmod(position, CHUNKS_OF_PAGE)


def _view_of(ref: BankRef, records: Sequence[Record]) -> View:
    if not records or records[-1].key.sk != MANIFEST:
        raise NotFound("memory bank", ref.bank_id)
    return View(tuple(_logged_in(record) for record in records[:-1]), _manifest_in(records[-1]))


def _put(ref: BankRef, change: BankChange, version: str) -> Put:
    chunks = None if change.chunks is None else [_fields_of(chunk) for chunk in change.chunks]
    fields: dict[str, Any] = {"document_id": change.document_id, "chunks": chunks}
    if change.attributes:
        fields["attributes"] = dict(change.attributes)
    body = to_json(fields)
    return Put(log_key(*ref[:2], change.document_id), body, {"version": version})


def _fields_of(chunk: DocumentChunk) -> dict[str, Any]:
    fields: dict[str, Any] = {"position": chunk.position, "text": chunk.text, "tokens": chunk.tokens}
    if chunk.metadata:
        fields["metadata"] = chunk.metadata
    if chunk.vector is not None:
        fields["vector"] = b64encode(array("f", chunk.vector).tobytes()).decode()
    return fields


def _logged_in(record: Record) -> LoggedChange:
    fields = from_json(record.body)
    document_id, found = fields["document_id"], fields["chunks"]
    chunks = None if found is None else tuple(_chunk_in(document_id, each) for each in found)
    change = BankChange(document_id, chunks, fields.get("attributes", {}))
    return LoggedChange(change, str(record.attributes["version"]))


def _chunk_in(document_id: str, fields: dict[str, Any]) -> DocumentChunk:
    vector = None
    if "vector" in fields:
        vector = array("f")
        vector.frombytes(b64decode(fields["vector"]))
    return DocumentChunk(
        document_id, fields["position"], fields["text"], fields["tokens"], fields.get("metadata", {}), vector
    )


def _manifest_body(segments: Sequence[SegmentEntry]) -> bytes:
    return to_json({"segments": [tuple(segment) for segment in segments]})


def _manifest_in(record: Record) -> Manifest:
    entries = from_json(record.body)["segments"]
    return Manifest(tuple(SegmentEntry(name, chunks, tuple(gone)) for name, chunks, gone in entries), record.rev)


EMPTY_MANIFEST = _manifest_body(())


def _within_limits(puts: Sequence[Put]) -> Iterator[list[Put]]:
    some: list[Put] = []
    size = 0
    for put in puts:
        if some and (len(some) == OPERATIONS_AT_ONCE or size + len(put.body) > BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(put)
        size += len(put.body)
    if some:
        yield some


def _parts(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
