"""Folding of a bank's log into segments, and merging of small segments into larger ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from zlib import crc32

from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.indexes import BankPart, Indexes
from turnstone.store.cleanup.jobs import sent
from turnstone.store.memory.contents import (
    BankContents,
    ChunkText,
    LoggedChange,
    Manifest,
    SegmentEntry,
    SegmentGone,
    page_of,
)

FOLDED_FROM = 64  # chunks in the log
CHANGES_AT_ONCE = 90  # deletions of the write that ends a fold
CHUNKS_AT_ONCE = 2_048
MERGED = 8  # segments of a size
SMALLEST = 16  # chunks of the smallest size
MOST_MERGED = 1_024  # chunks of a segment that is merged further
REMOVED_AFTER = timedelta(minutes=2)  # longer than a search or a fold
ONE_IN = 32


@dataclass(frozen=True, slots=True)
class FoldingDeps:
    contents: BankContents
    indexes: Indexes
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator


def is_due(document_ids: Sequence[str], chunks: int) -> bool:
    """Return whether to check the log after this insertion: always after a large one, else one time in some."""
    return chunks >= ONE_IN or any(crc32(each.encode("utf-8", "surrogatepass")) % ONE_IN == 0 for each in document_ids)


class Folding:
    def __init__(self, deps: FoldingDeps) -> None:
        self._deps = deps

    def fold(self, ref: BankRef) -> None:
        """Fold the log while it is long. Another process may do the same: the first one's fold counts."""
        while True:
            view = self._deps.contents.view(ref)
            if sum(len(each.change.chunks or ()) or 1 for each in view.log) < FOLDED_FROM:
                return
            segments = self._folded(ref, view.manifest, _first(view.log))
            if segments is None:
                return
            while (run := mergeable(segments.segments)) > 1:
                merged = self._merged(ref, segments, run)
                if merged is None:
                    return
                segments = merged

    def _folded(self, ref: BankRef, before: Manifest, log: Sequence[LoggedChange]) -> Manifest | None:
        """Return the list with a segment of these changes, None if another process came first."""
        chunks = [chunk for each in log for chunk in each.change.chunks or ()]
        dropped = tuple(each.change.document_id for each in log if each.change.chunks is None)
        entry = SegmentEntry(self._new_name(before), len(chunks), dropped)
        index = self._deps.indexes.segments.build(
            chunks, {each.change.document_id: each.change.attributes for each in log}
        )
        texts = [ChunkText(chunk.position, chunk.tokens, chunk.text) for chunk in chunks]
        return self._committed(ref, before, (*before.segments, entry), entry, index, texts, log)

    def _merged(self, ref: BankRef, before: Manifest, run: int) -> Manifest | None:
        """Return the list with its last segments as one, None if another process came first."""
        earlier, merged = before.segments[:-run], before.segments[-run:]
        try:
            parts = self._deps.indexes.parts(ref, before._replace(segments=merged))
            texts = [text for part in parts for text in self._texts(ref, part)]
        except SegmentGone:
            return None
        index = self._deps.indexes.segments.merge([(part.segment, part.dropped) for part in parts])
        dropped = dict.fromkeys(document_id for each in merged for document_id in each.dropped) if earlier else {}
        entry = SegmentEntry(self._new_name(before), len(texts), tuple(dropped))
        return self._committed(ref, before, (*earlier, entry), entry, index, texts, ())

    def _committed(
        self,
        ref: BankRef,
        before: Manifest,
        segments: tuple[SegmentEntry, ...],
        entry: SegmentEntry,
        index: bytes,
        texts: Sequence[ChunkText],
        log: Sequence[LoggedChange],
    ) -> Manifest | None:
        now = self._deps.clock.now()
        cleaning = Job(
            kind="clean_segments", tenant=ref.tenant, order=ref.content_id, since=now, due_at=now + REMOVED_AFTER
        )
        contents = self._deps.contents
        is_stored = contents.put_segment(ref, entry.name, index, texts, cleaning)
        sent(self._deps.jobs(), cleaning)
        if not is_stored or not contents.commit(ref, before, segments, log):
            return None
        return Manifest(segments, before.rev + 1)

    def _texts(self, ref: BankRef, part: BankPart) -> list[ChunkText]:
        """Return the texts of the part's chunks, without those of dropped documents."""
        documents = part.segment.document_ids()
        pages = 1 + page_of(len(documents) - 1)[0] if documents else 0
        found = self._deps.contents.texts(ref, [(part.name, page) for page in range(pages)])
        texts = [text for page in range(pages) for text in found[part.name, page]]
        return [text for text, document_id in zip(texts, documents, strict=True) if document_id not in part.dropped]

    def _new_name(self, before: Manifest) -> str:
        """Return a name that sorts behind those of all listed segments, and states its time."""
        previous = before.segments[-1].name if before.segments else None
        return self._deps.ids.order_key(self._deps.clock.now(), previous)


def mergeable(segments: Sequence[SegmentEntry]) -> int:
    """Return how many of the last segments to merge: enough of about one size, with all smaller ones behind them."""
    smallest, largest = 0, SMALLEST
    while largest <= MOST_MERGED:
        run = list(takewhile(lambda segment: segment.chunks <= largest, reversed(segments)))  # noqa: B023 - drawn at once
        if sum(segment.chunks > smallest for segment in run) >= MERGED:
            return len(run)
        smallest, largest = largest, largest * MERGED
    return 0


def _first(log: Sequence[LoggedChange]) -> list[LoggedChange]:
    """Return as many changes as one fold takes, one at least."""
    some: list[LoggedChange] = []
    chunks = 0
    for each in log[:CHANGES_AT_ONCE]:
        chunks += len(each.change.chunks or ())
        if some and chunks > CHUNKS_AT_ONCE:
            break
        some.append(each)
    return some
