"""Loaded indexes of banks, shared by all searches of a process. Segments never change, so none is out of date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple, TypeVar
from zlib import crc32

from turnstone.domain.errors import ContentLost
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.memory import OpenSegment, Segments
from turnstone.services.memory.bank_parts import NO_LOG, BankPart, IndexedLog, indexed
from turnstone.store.keys.banks import log_key
from turnstone.store.memory.contents import (
    BankContents,
    ChunkText,
    LoggedChange,
    SegmentEntry,
    View,
    page_of,
)

Kept = TypeVar("Kept")
MOST_BYTES = 256 * 1024 * 1024
BYTES_OF_TEXT = 2  # a character, about
LOADING_AT_ONCE = 16  # banks
WHOLE = slice(None)
SEGMENT, TEXTS, LOG, LAYERS = "segment", "texts", "log", "layers"  # kinds of entries


class _Layered(NamedTuple):
    """The parts of a bank at one time."""

    segments: tuple[SegmentEntry, ...]
    parts: list[BankPart]


class _Texts(NamedTuple):
    """A page of texts."""

    page: tuple[ChunkText, ...]


class _Segment(NamedTuple):
    """A loaded segment, with all its documents."""

    whole: OpenSegment


class Indexes:
    """The loaded segments of all banks, up to a number of bytes: those used longest ago are dropped first."""

    def __init__(self, contents: BankContents, segments: Callable[[], Segments]) -> None:
        """Take `segments` as a function, because to load the module takes long."""
        self._contents = contents
        self._segments = segments
        self._lock = Lock()
        self._loading = [Lock() for _ in range(LOADING_AT_ONCE)]
        self._held: OrderedDict[tuple[str, ...], tuple[int, object]] = OrderedDict()
        self._bytes = 0

    @property
    def segments(self) -> Segments:
        return self._segments()

    def parts(self, ref: BankRef, segments: tuple[SegmentEntry, ...]) -> Sequence[BankPart]:
        """Return the listed segments as parts, the oldest first.

        Raises:
            SegmentGone: a segment was merged since.
            ContentLost: a segment can't be read.
        """
        loaded = self._loaded(ref, [entry.name for entry in segments])
        key = _key(ref, LAYERS)
        held = self._found(key, _Layered)
        if held is None or held.segments != segments:
            held = self._kept(key, 0, _Layered(segments, self._in_layers(ref, segments, loaded)))
        return held.parts

    def layered(self, ref: BankRef, segments: Sequence[SegmentEntry]) -> Sequence[BankPart]:
        """Return some of the bank's segments as if it had no others. Raises SegmentGone, ContentLost."""
        return self._in_layers(ref, segments, self._loaded(ref, [entry.name for entry in segments]))

    def keep(self, ref: BankRef, name: str, index: bytes) -> None:
        """Hold the index of a segment that this process has stored, as if it had been read."""
        self._opened(ref, name, index)

    def drop(self, ref: BankRef, names: Sequence[str]) -> None:
        """Hold the indexes of these segments no longer: others have their chunks."""
        with self._lock:
            for name in names:
                size, _ = self._held.pop(_key(ref, SEGMENT, name), (0, None))
                self._bytes -= size
            self._held.pop(_key(ref, LAYERS), None)

    def of_view(self, ref: BankRef, view: View) -> list[BankPart]:
        """Return the parts of a bank, each without the documents that newer ones replace or drop.

        Raises:
            SegmentGone: a segment was merged since.
            ContentLost: a segment can't be read.
        """
        log = self._log(ref, view.log)
        newer = list(log.documents.values())
        parts = self.parts(ref, view.manifest.segments)
        folded = (part._replace(segment=part.segment.without(newer)) for part in parts)
        return [*folded, *(each.part for each in log.parts)]

    def texts(self, ref: BankRef, pages: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[ChunkText, ...]]:
        """Return these pages of texts. Raises SegmentGone, ContentLost."""
        found: dict[tuple[str, int], tuple[ChunkText, ...]] = {}
        for name, page in pages:
            held = self._found(_key(ref, TEXTS, name, str(page)), _Texts)
            if held is not None:
                found[name, page] = held.page
        missing = [each for each in dict.fromkeys(pages) if each not in found]
        for (name, page), texts in self._contents.texts(ref, missing).items() if missing else ():
            size = sum(BYTES_OF_TEXT * len(text.text) for text in texts)
            found[name, page] = self._kept(_key(ref, TEXTS, name, str(page)), size, _Texts(texts)).page
        return found

    def chunks_of(self, ref: BankRef, view: View, document_id: str, part: slice = WHOLE) -> tuple[DocumentChunk, ...]:
        """Return the chunks of a document that count, or a part of them, in the order of its text.

        Raises SegmentGone, ContentLost.
        """
        key = log_key(*ref[:2], document_id)
        for logged in view.log:
            if logged.key == key:
                return (logged.change().chunks or ())[part]
        segments = self.parts(ref, view.manifest.segments)
        return tuple(chunk for each in segments for chunk in self._chunks_in(ref, each, document_id, part))

    def _chunks_in(self, ref: BankRef, of_bank: BankPart, document_id: str, part: slice) -> Iterator[DocumentChunk]:
        segment = of_bank.segment
        slots = [(position, page_of(position)) for position in list(segment.positions_of(document_id))[part]]
        texts = self.texts(ref, [(of_bank.name, page) for _, (page, _) in slots])
        for position, (page, index) in slots:
            at, tokens, text = texts[of_bank.name, page][index]
            metadata, vector = segment.row(position).metadata, segment.vector(position)
            yield DocumentChunk(document_id, at, text, tokens, metadata, vector)

    def _loaded(self, ref: BankRef, names: Sequence[str]) -> dict[str, OpenSegment]:
        """Return the segments of these names; one thread at a time reads those of a bank."""
        found = self._held_of(ref, names)
        if len(found) < len(names):
            with self._loading[crc32(ref.content_id.encode()) % LOADING_AT_ONCE]:
                found = self._held_of(ref, names)
                missing = [name for name in names if name not in found]
                for name, index in zip(missing, self._contents.indexes(ref, missing), strict=True):
                    found[name] = self._opened(ref, name, index)
        return found

    def _in_layers(
        self, ref: BankRef, segments: Sequence[SegmentEntry], loaded: Mapping[str, OpenSegment]
    ) -> list[BankPart]:
        layered = self.segments.layered([(loaded[entry.name], entry.dropped) for entry in segments])
        return [BankPart(ref, entry.name, segment) for entry, segment in zip(segments, layered, strict=True)]

    def _held_of(self, ref: BankRef, names: Sequence[str]) -> dict[str, OpenSegment]:
        held = ((name, self._found(_key(ref, SEGMENT, name), _Segment)) for name in names)
        return {name: segment.whole for name, segment in held if segment is not None}

    def _opened(self, ref: BankRef, name: str, index: bytes) -> OpenSegment:
        try:
            segment = self.segments.open(index)
        except ValueError as problem:
            raise ContentLost("memory bank", ref.bank_id) from problem
        return self._kept(_key(ref, SEGMENT, name), len(index), _Segment(segment)).whole

    def _log(self, ref: BankRef, log: Sequence[LoggedChange]) -> IndexedLog:
        key = _key(ref, LOG)
        before = self._found(key, IndexedLog) or NO_LOG
        after = indexed(ref, log, before, self.segments)
        return after if after is before else self._kept(key, after.size, after)

    def _found(self, key: tuple[str, ...], kind: type[Kept]) -> Kept | None:
        with self._lock:
            held = self._held.get(key)
            if held is None or not isinstance(held[1], kind):
                return None
            self._held.move_to_end(key)
            return held[1]

    def _kept(self, key: tuple[str, ...], size: int, value: Kept) -> Kept:
        with self._lock:
            before, _ = self._held.pop(key, (0, None))
            self._held[key] = (size, value)
            self._bytes += size - before
            while self._bytes > MOST_BYTES and len(self._held) > 1:
                dropped, (bytes_dropped, _) = self._held.popitem(last=False)
                self._bytes -= bytes_dropped
                self._held.pop((*dropped[:2], LAYERS), None)  # they refer to the segments of their bank
        return value


def _key(ref: BankRef, *parts: str) -> tuple[str, ...]:
    return (ref.tenant, ref.content_id, *parts)
