"""Merging of small segments into larger ones, and rewriting of segments that newer ones have mostly replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, takewhile

from turnstone.domain.memory.banks import BankRef
from turnstone.services.memory.bank_parts import BankPart
from turnstone.services.memory.indexes import Indexes
from turnstone.services.memory.segment_writing import SegmentWriting
from turnstone.store.memory.contents import (
    PAGES_AT_ONCE,
    BankContents,
    ChunkText,
    Manifest,
    SegmentEntry,
    SegmentGone,
    page_of,
)

MERGED = 8  # segments of a size
SMALLEST = 16  # chunks of the smallest size
LARGE = 1_024  # chunks above which a segment is not merged for its size any more
LARGEST = LARGE * MERGED  # chunks of segments that are rewritten as one
MOST_DROPPED = 4_000  # ids of dropped documents in a list of segments
TRIES = 16


@dataclass(frozen=True, slots=True)
class Merging:
    contents: BankContents
    indexes: Indexes
    writing: SegmentWriting

    def settle(self, ref: BankRef, manifest: Manifest, *, is_weighed: bool = False) -> None:
        """Merge and rewrite segments until no rule applies. Another process may do the same: the first one counts.

        Args:
            is_weighed: whether to count the replaced chunks, which reads the indexes of all segments; also done after
                something large was merged.
        """
        is_weighed = is_weighed or sum(len(each.dropped) for each in manifest.segments) > MOST_DROPPED
        try:
            while True:
                run = mergeable(manifest.segments)
                if not run and is_weighed:
                    manifest, is_weighed = self._weighed(ref, manifest), False
                run = run or reclaimable(manifest.segments)
                if not run:
                    return
                is_weighed = is_weighed or sum(manifest.segments[at].living for at in run) > LARGE
                manifest = self._merged(ref, manifest, run)
        except SegmentGone:
            return

    def _weighed(self, ref: BankRef, before: Manifest) -> Manifest:
        """Return the list with what newer segments replaced of each, and without dropped documents that none has.

        Raises:
            SegmentGone: another process came first.
        """
        parts = self.indexes.parts(ref, before.segments)
        weighed: list[SegmentEntry] = []
        for number, (entry, part) in enumerate(zip(before.segments, parts, strict=True)):
            older = (each.segment.documents_among(entry.dropped) for each in parts[:number])
            still = set(chain.from_iterable(older)) if entry.dropped else set()
            dropped = tuple(each for each in entry.dropped if each in still)
            weighed.append(entry._replace(dropped=dropped, replaced=entry.chunks - part.segment.chunks))
        if tuple(weighed) == before.segments:
            return before
        after = self.contents.commit(ref, before, weighed)
        if after is None:
            raise SegmentGone
        return after

    def _merged(self, ref: BankRef, before: Manifest, run: range) -> Manifest:
        """Return the list with the segments of the run as one, or none if nothing of them counts any more.

        Raises:
            SegmentGone: another process came first.
        """
        entries = before.segments[run.start : run.stop]
        if run.stop == len(before.segments):
            parts = self.indexes.layered(ref, entries)
        else:
            parts = self.indexes.parts(ref, before.segments)[run.start : run.stop]
        chunks = sum(part.segment.chunks for part in parts)
        dropped = tuple(dict.fromkeys(each for entry in entries for each in entry.dropped)) if run.start else ()
        made: tuple[SegmentEntry, ...] = ()
        if chunks or dropped:
            index = self.writing.merge([part.segment for part in parts])
            texts = chain.from_iterable(self._texts(ref, part) for part in parts)
            name = self.writing.put(ref, index, chunks, texts)
            if name is None:
                raise SegmentGone
            made = (SegmentEntry(name, chunks, dropped),)
        for _ in range(TRIES):
            manifest = self.contents.manifest(ref)
            at = _position_of(entries, manifest.segments)
            segments = (*manifest.segments[:at], *made, *manifest.segments[at + len(entries) :])
            if after := self.contents.commit(ref, manifest, segments):
                self.indexes.drop(ref, [entry.name for entry in entries])
                return after
        raise SegmentGone

    def _texts(self, ref: BankRef, part: BankPart) -> Iterator[ChunkText]:
        """Yield the texts of the part's chunks that count, some pages read at a time. Raises SegmentGone."""
        pages = groupby(map(page_of, part.segment.positions()), key=lambda position: position[0])
        numbered = ((page, [index for _, index in positions]) for page, positions in pages)
        while some := list(islice(numbered, PAGES_AT_ONCE)):
            found = self.contents.texts(ref, [(part.name, page) for page, _ in some])
            for page, indexes in some:
                texts = found[part.name, page]
                yield from (texts[index] for index in indexes)


def mergeable(segments: Sequence[SegmentEntry]) -> range:
    """Return which of the last segments to merge: enough of about one size, with all smaller ones behind them."""
    smallest, largest = 0, SMALLEST
    while largest <= LARGE:
        run = list(takewhile(lambda segment: segment.chunks <= largest, reversed(segments)))  # noqa: B023 - drawn at once
        if sum(segment.chunks > smallest for segment in run) >= MERGED:
            return range(len(segments) - len(run), len(segments))
        smallest, largest = largest, largest * MERGED
    return range(0)


def reclaimable(segments: Sequence[SegmentEntry]) -> range:
    """Return which segments to rewrite as one: one of which most was replaced, with its small neighbours.

    If the list has too many dropped documents, it is one of which anything was.
    """
    least = 0.0 if sum(len(each.dropped) for each in segments) > MOST_DROPPED else 0.5

    def is_wasteful(segment: SegmentEntry) -> bool:
        is_empty = not segment.chunks and not segment.dropped
        return is_empty or segment.replaced > least * segment.chunks

    for at, segment in enumerate(segments):
        if is_wasteful(segment):
            begin, end, chunks = at, at + 1, segment.living
            while begin and _fits(segments[begin - 1], chunks):
                begin -= 1
                chunks += segments[begin].living
            while end < len(segments) and _fits(segments[end], chunks, is_wasteful(segments[end])):
                chunks += segments[end].living
                end += 1
            return range(begin, end)
    return range(0)


def _fits(segment: SegmentEntry, chunks: int, is_wasteful: bool = False) -> bool:
    return (is_wasteful or segment.living <= LARGE) and chunks + segment.living <= LARGEST


def _position_of(run: Sequence[SegmentEntry], segments: Sequence[SegmentEntry]) -> int:
    """Return where the list has the run. Raises SegmentGone if it has not, as a whole."""
    names = [each.name for each in segments]
    first = names.index(run[0].name) if run[0].name in names else -1
    if first < 0 or names[first : first + len(run)] != [each.name for each in run]:
        raise SegmentGone
    return first
