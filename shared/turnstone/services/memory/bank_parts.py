"""Parts of a bank: its segments, and the changes of its log, which are indexed as they come.

A process indexes each change once: a part of the log has the changes that were new to a search, and several parts are
merged into one when there are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.memory import OpenSegment, Segments
from turnstone.store.memory.contents import LoggedChange

MOST_PARTS = 8


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
    chunks: tuple[DocumentChunk, ...] = ()


class LogPart(NamedTuple):
    """Some changes of a log: the document of each, by its version."""

    documents: Mapping[str, str]
    part: BankPart


class IndexedLog(NamedTuple):
    """A log, indexed.

    Attributes:
        documents: the document of each change, by its version, also of those without chunks.
    """

    documents: Mapping[str, str]
    parts: tuple[LogPart, ...]

    @property
    def size(self) -> int:
        """The bytes of its texts and vectors, about."""
        return sum(_size(chunk) for each in self.parts for chunk in each.part.chunks)


NO_LOG = IndexedLog({}, ())


def indexed(ref: BankRef, log: Sequence[LoggedChange], before: IndexedLog, segments: Segments) -> IndexedLog:
    """Return the log, indexed, with the parts of another time as far as they are the same."""
    if before.documents.keys() == {each.version for each in log}:
        return before
    current = {each.version: each for each in log}
    parts = [part for each in before.parts if (part := _without_others(each, current)) is not None]
    changes = {version: each.change() for version, each in current.items() if version not in before.documents}
    documents = {version: before.documents[version] for version in current if version not in changes}
    documents |= {version: change.document_id for version, change in changes.items()}
    with_chunks = {version: change for version, change in changes.items() if change.chunks}
    if with_chunks:
        chunks = tuple(chunk for change in with_chunks.values() for chunk in change.chunks or ())
        body = segments.build(chunks, {change.document_id: change.attributes for change in with_chunks.values()})
        of_new = {version: documents[version] for version in with_chunks}
        parts.append(LogPart(of_new, BankPart(ref, "", segments.open(body), chunks)))
    return IndexedLog(documents, tuple(parts) if len(parts) <= MOST_PARTS else (_as_one(ref, parts, segments),))


def _without_others(each: LogPart, current: Mapping[str, LoggedChange]) -> LogPart | None:
    """Return the part without changes that the log has no longer, None if it has none of them."""
    gone = {version: document_id for version, document_id in each.documents.items() if version not in current}
    if not gone:
        return each
    left = {version: document_id for version, document_id in each.documents.items() if version not in gone}
    part = each.part._replace(segment=each.part.segment.without(list(gone.values())))
    return LogPart(left, part) if left else None


def _as_one(ref: BankRef, parts: Sequence[LogPart], segments: Segments) -> LogPart:
    chunks = tuple(each.part.chunks[at] for each in parts for at in each.part.segment.positions())
    body = segments.merge([each.part.segment for each in parts])
    documents = {version: document_id for each in parts for version, document_id in each.documents.items()}
    return LogPart(documents, BankPart(ref, "", segments.open(body), chunks))


def _size(chunk: DocumentChunk) -> int:
    return len(chunk.text) + 4 * len(chunk.vector or ())
