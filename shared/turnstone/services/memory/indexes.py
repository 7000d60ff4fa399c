"""Loaded indexes of banks, shared by all searches of a process. Segments never change, so none is out of date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import NamedTuple, TypeVar
from zlib import crc32

from turnstone.domain.errors import ContentLost
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.memory import OpenSegment, Segments
from turnstone.store.memory.contents import BankContents, ChunkText, LoggedChange, Manifest

Kept = TypeVar("Kept")
MOST_BYTES = 256 * 1024 * 1024
SHARES = 8
BYTES_OF_TEXT = 2  # a character, about


class LoadedSegment(NamedTuple):
    """A loaded segment, and the ids of its documents."""

    segment: OpenSegment
    documents: frozenset[str]


class BankPart(NamedTuple):
    """A part of a bank: a segment without the documents that newer parts replace or drop.

    Attributes:
        ref: of the bank.
        name: of the segment.
        chunks: of a part of the log; empty for a segment, whose texts are stored apart.
    """

    ref: BankRef
    name: str
    segment: OpenSegment
    dropped: frozenset[str]
    chunks: tuple[DocumentChunk, ...] = ()


class Indexes:
    """The loaded segments of all banks, up to a number of bytes: those used longest ago are dropped first."""

    def __init__(self, contents: BankContents, segments: Callable[[], Segments]) -> None:
        """Take `segments` as a function, because to load the module takes long."""
        self._contents = contents
        self._segments = segments
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[int, object]] = OrderedDict()
        self._bytes = 0

    @property
    def segments(self) -> Segments:
        return self._segments()

    def parts(self, ref: BankRef, manifest: Manifest, newer: frozenset[str] = frozenset()) -> list[BankPart]:
        """Return the listed segments as parts, the oldest first.

        Args:
            newer: documents of the log, which no segment's chunks count for.

        Raises:
            SegmentGone: a segment was merged since.
        """
        loaded = [self.segment(ref, each.name) for each in manifest.segments]
        parts, seen = [], set(newer)
        for entry, (segment, documents) in zip(reversed(manifest.segments), reversed(loaded), strict=True):
            parts.append(BankPart(ref, entry.name, segment, documents & seen))
            seen |= documents
            seen.update(entry.dropped)
        return parts[::-1]

    def segment(self, ref: BankRef, name: str) -> LoadedSegment:
        """Return a stored segment. Raises SegmentGone, ContentLost."""
        key = (ref.tenant, ref.content_id, name)
        found = self._found(key)
        if isinstance(found, LoadedSegment):
            return found
        body = self._contents.index(ref, name)
        try:
            segment = self.segments.open(body)
        except ValueError as problem:
            raise ContentLost("memory bank", ref.bank_id) from problem
        return self._kept(key, len(body), LoadedSegment(segment, frozenset(segment.document_ids())))

    def log(self, ref: BankRef, log: Sequence[LoggedChange]) -> list[BankPart]:
        """Return the log's chunks as a few parts: a new document changes only one of them."""
        shares: dict[int, list[LoggedChange]] = {}
        for each in log:
            if each.change.chunks:
                shares.setdefault(crc32(each.change.document_id.encode("utf-8", "surrogatepass")) % SHARES, []).append(
                    each
                )
        return [self._share(ref, some) for _, some in sorted(shares.items())]

    def texts(self, ref: BankRef, pages: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[ChunkText, ...]]:
        """Return these pages of texts. Raises ContentLost."""
        found: dict[tuple[str, int], tuple[ChunkText, ...]] = {}
        for each in pages:
            held = self._found((ref.tenant, ref.content_id, *each))
            if isinstance(held, tuple):
                found[each] = held
        missing = [each for each in dict.fromkeys(pages) if each not in found]
        for each, texts in self._contents.texts(ref, missing).items() if missing else ():
            size = sum(BYTES_OF_TEXT * len(text.text) for text in texts)
            found[each] = self._kept((ref.tenant, ref.content_id, *each), size, texts)
        return found

    def _share(self, ref: BankRef, some: Sequence[LoggedChange]) -> BankPart:
        key = (ref.tenant, ref.content_id, *(each.version for each in some))
        found = self._found(key)
        if isinstance(found, BankPart):
            return found
        chunks = tuple(chunk for each in some for chunk in each.change.chunks or ())
        body = self.segments.build(chunks, {each.change.document_id: each.change.attributes for each in some})
        size = len(body) + sum(BYTES_OF_TEXT * len(chunk.text) for chunk in chunks)
        return self._kept(key, size, BankPart(ref, "", self.segments.open(body), frozenset(), chunks))

    def _found(self, key: Hashable) -> object:
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[1]

    def _kept(self, key: Hashable, size: int, value: Kept) -> Kept:
        with self._lock:
            if key not in self._held:
                self._held[key] = (size, value)
                self._bytes += size
            while self._bytes > MOST_BYTES and len(self._held) > 1:
                _, (dropped, _) = self._held.popitem(last=False)
                self._bytes -= dropped
        return value
