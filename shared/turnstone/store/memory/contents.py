"""Content of memory banks: a log of the newest operations, and segments that were folded from it.

The log has one record for each document inserted or dropped since the last fold. Segments are immutable and in the
order of their listing; the manifest lists them. A document counts where it appears last: in the log, else in the newest
segment that contains or drops it. So an operation writes its own record only, and parallel ones never conflict.

A reader takes the log before the manifest: an operation folded in between appears in both, and is never missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple, TypeVar

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.ids import moment_of
from turnstone.ports.records import AttributeIs, Check, Delete, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.keys.banks import (
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
from turnstone.store.memory.bank_records import BankChange as BankChange
from turnstone.store.memory.bank_records import ChunkText as ChunkText
from turnstone.store.memory.bank_records import LoggedChange as LoggedChange
from turnstone.store.memory.bank_records import Manifest as Manifest
from turnstone.store.memory.bank_records import SegmentEntry as SegmentEntry
from turnstone.store.memory.bank_records import (
    logged_in,
    manifest_body,
    manifest_in,
    page_body,
    put_change,
    texts_in,
)

Item = TypeVar("Item")
CHUNKS_OF_PAGE = 64
OPERATIONS_AT_ONCE = 96
BYTES_AT_ONCE = 2 * 1024 * 1024  # of a write, whose records are limited in sum
PAGES_AT_ONCE = 16
INDEXES_AT_ONCE = 8
CLEARED_AT_ONCE = 100
HELD_BYTES = 128 * 1024
EXISTS = AttributeIs("status", "active")
# The state of a segment, in the record of its index. That is there first, with the number of pages that will follow, so
# that a clean-up finds payloads whose own records were never written.
STATE, PAGES = "state", "pages"
CLAIMED, STORED, REMOVED = "claimed", "stored", "removed"
NO_INDEX = b"{}"


class View(NamedTuple):
    """The state of a bank: its log and its segments."""

    log: tuple[LoggedChange, ...]
    manifest: Manifest


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
            view_of(ref, [record for page in pages(self._store, query, first) for record in page.records])
            for ref, query, first in zip(refs, ranges, firsts, strict=True)
        ]

    def manifest(self, ref: BankRef) -> Manifest:
        """Return the list of segments. Raises NotFound."""
        record = self._store.get(manifest_key(ref.tenant, ref.content_id))
        if record is None:
            raise NotFound("memory bank", ref.bank_id)
        return manifest_in(record)

    def append(self, ref: BankRef, changes: Sequence[BankChange], version: Callable[[], str]) -> None:
        """Store the changes, some at a time; each of them wholly or not. Raises NotFound for a deleted bank.

        Several changes of one document must be in several calls.
        """
        for some in within_limits([self.put_change(ref, change, version()) for change in changes]):
            self.write(ref, some)

    def put_change(self, ref: BankRef, change: BankChange, version: str) -> Put:
        """Return the write of a change into the log, where it replaces an earlier one of the document."""
        return put_change(log_key(*ref[:2], change.document_id), change, version)

    def write(self, ref: BankRef, operations: Sequence[Operation]) -> None:
        """Apply all operations or none. Raises NotFound for a deleted bank, Conflict for a condition of theirs."""
        exists = Check(manifest_key(ref.tenant, ref.content_id), (EXISTS,))
        try:
            self._store.write([*operations, exists])
        except Conflict as conflict:
            if conflict.key != exists.key:
                raise
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

    def put_segment(
        self, ref: BankRef, name: str, index: bytes, chunks: int, texts: Iterable[ChunkText], cleaning: Job
    ) -> bool:
        """Store a segment, not listed yet, with the job that removes it if it never is.

        Args:
            chunks: the number of the texts, which are read one page after the other.

        Returns:
            Whether it was stored: not if that job has removed it already.

        Raises:
            NotFound: the bank was deleted.
        """
        key = index_key(*ref[:2], name)
        parts = {PAGES: -(-chunks // CHUNKS_OF_PAGE)}
        exists = Check(manifest_key(ref.tenant, ref.content_id), (EXISTS,))
        try:
            self._store.write([Put(key, NO_INDEX, {STATE: CLAIMED, **parts}), put_job(cleaning), exists])
        except Conflict as conflict:
            raise NotFound("memory bank", ref.bank_id) from conflict
        is_claimed = (AttributeIs(STATE, CLAIMED),)
        numbered = enumerate(_pages_of(texts))
        try:
            while some := list(islice(numbered, PAGES_AT_ONCE)):
                puts = [Put(page_key(*ref[:2], name, number), body, is_apart=True) for number, body in some]
                self._store.write([*puts, Check(key, is_claimed)])
            self._store.write([Put(key, index, {STATE: STORED, **parts}, when=is_claimed, is_apart=True)])
        except Conflict:
            return False
        return True

    def commit(
        self,
        ref: BankRef,
        before: Manifest,
        segments: Sequence[SegmentEntry],
        folded: Sequence[LoggedChange] = (),
        also: Sequence[Operation] = (),
    ) -> Manifest | None:
        """List these segments, and remove the folded changes.

        Args:
            also: other writes, applied with these or not at all.

        Returns:
            The list as it is now; None if the list or a folded change has changed since it was read, a segment that is
            new in the list is gone, or a condition of the other writes does not hold.
        """
        listed = {segment.name for segment in before.segments}
        key = manifest_key(ref.tenant, ref.content_id)
        writes: list[Operation] = [
            Put(key, manifest_body(segments), {"status": "active"}, when=(RevIs(before.rev),)),
            *(
                Check(index_key(*ref[:2], each.name), (AttributeIs(STATE, STORED),))
                for each in segments
                if each.name not in listed
            ),
            *(Delete(each.key, (AttributeIs("version", each.version),)) for each in folded),
            *also,
        ]
        try:
            self._store.write(writes)
        except Conflict:
            return None
        return Manifest(tuple(segments), before.rev + 1)

    def indexes(self, ref: BankRef, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the index of each segment, some of them read at a time. Raises SegmentGone, ContentLost."""
        for some in _parts(names, INDEXES_AT_ONCE):
            records, _ = self._store.gather([Get(index_key(*ref[:2], name)) for name in some], [])
            for record in records:
                if record is None or record.attributes.get(STATE) != STORED:
                    raise SegmentGone
                yield record.body

    def texts(self, ref: BankRef, numbered: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[ChunkText, ...]]:
        """Return the pages of these segments and numbers. Raises SegmentGone, ContentLost."""
        found: dict[tuple[str, int], tuple[ChunkText, ...]] = {}
        for some in _parts(numbered, PAGES_AT_ONCE):
            records, _ = self._store.gather([Get(page_key(*ref[:2], *each)) for each in some], [])
            for each, record in zip(some, records, strict=True):
                if record is None:
                    raise SegmentGone
                found[each] = texts_in(record)
        return found

    def clear_unlisted(self, ref: BankRef, old: datetime, limit: int) -> Unlisted:
        """Remove segments that the manifest does not list, about that number of records at most.

        A segment is marked as removed first, while the manifest is the one that was read: after that it can't be
        listed. Its mark goes last, so that another run finds what this one leaves.

        Args:
            old: a segment made before is not completed any more.
        """
        record = self._store.get(manifest_key(ref.tenant, ref.content_id))
        if record is None:
            return Unlisted.NONE  # the bank is deleted, with a job that removes everything
        listed = {segment.name for segment in manifest_in(record).segments}
        same_list = Check(record.key, (RevIs(record.rev),))
        left = Unlisted.NONE
        for index in self._segments_stored(ref):
            name = segment_of(index.key.sk)
            if name in listed:
                continue
            if moment_of(name) > old:
                left = Unlisted.YOUNG
                continue
            if limit <= 0:
                return Unlisted.SOME
            number = int(index.attributes.get(PAGES, 0))
            try:
                self._store.write([Put(index.key, NO_INDEX, {STATE: REMOVED, PAGES: number}), same_list])
            except Conflict:
                return Unlisted.SOME
            for key in (*(page_key(*ref[:2], name, page) for page in range(number)), index.key):
                self._store.clear(key.pk, CLEARED_AT_ONCE, key.sk)
            limit -= 1 + number
        return left

    def _segments_stored(self, ref: BankRef) -> Iterator[Record]:
        """Yield the record of each segment's index, whose body is left out."""
        for page in pages(self._store, all_segments(ref.tenant, ref.content_id)._replace(held_bytes=HELD_BYTES)):
            for record in page.records:
                if record.key == index_key(*ref[:2], segment_of(record.key.sk)):
                    yield record


def page_of(position: int) -> tuple[int, int]:
    """Return the number of the page with that chunk's text, and its index there."""
    return divmod(position, CHUNKS_OF_PAGE)


def view_of(ref: BankRef, records: Sequence[Record]) -> View:
    """Return the state in the records of log and manifest. Raises NotFound without a manifest: the bank is deleted."""
    if not records or records[-1].key.sk != MANIFEST:
        raise NotFound("memory bank", ref.bank_id)
    return View(tuple(logged_in(record) for record in records[:-1]), manifest_in(records[-1]))


def _pages_of(texts: Iterable[ChunkText]) -> Iterator[bytes]:
    following = iter(texts)
    while some := list(islice(following, CHUNKS_OF_PAGE)):
        yield page_body(some)


def within_limits(puts: Sequence[Put], number: int = OPERATIONS_AT_ONCE) -> Iterator[list[Put]]:
    """Yield the puts in groups for one write each, of that number at most."""
    some: list[Put] = []
    size = 0
    for put in puts:
        if some and (len(some) == number or size + len(put.body) > BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(put)
        size += len(put.body)
    if some:
        yield some


def _parts(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
