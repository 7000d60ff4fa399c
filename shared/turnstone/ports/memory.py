"""Indexes of memory banks: immutable segments, each of some chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from turnstone.domain.memory.documents import DocumentChunk


class Corpus(NamedTuple):
    """Counts over all parts of a bank, which make the scores of its parts comparable.

    Attributes:
        chunks: the number of chunks.
        terms: the number of their terms, repeated ones included.
        frequencies: the number of chunks that contain the term, of each term of the question.
    """

    chunks: int
    terms: int
    frequencies: Mapping[str, int]


class SegmentQuestion(NamedTuple):
    """A question to one segment.

    Attributes:
        terms: the analysed text, as `memory/terms` returns it; empty for vectors alone.
        vector: None for keywords alone.
        limit: the number of best hits of either kind.
        is_kept: whether a chunk counts, by its document's id and the values of a filter: its metadata with the
            attributes of its document, which win; None for all.
    """

    terms: Sequence[str]
    vector: Sequence[float] | None
    corpus: Corpus
    limit: int
    is_kept: Callable[[str, Mapping[str, Any]], bool] | None = None


class SegmentHit(NamedTuple):
    """A chunk of a segment; a score is 0 where its half of the search did not find it.

    The score by keywords is the weighted part of the question that the chunk covers, below 1.
    """

    position: int
    chunk_id: str
    keyword_score: float
    vector_score: float


class SegmentRow(NamedTuple):
    """A chunk as its segment describes it: its document with that one's attributes, and the metadata of the chunk."""

    document_id: str
    metadata: Mapping[str, Any]
    attributes: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that filters compare."""
        return {**self.metadata, **self.attributes}


class OpenSegment(Protocol):
    """A segment, loaded."""

    @property
    def chunks(self) -> int:
        """The number of chunks."""

    @property
    def terms(self) -> int:
        """The number of their terms, repeated ones included."""

    def document_ids(self) -> Sequence[str]:
        """Return the document of each chunk, in the order of positions."""

    def row(self, position: int) -> SegmentRow:
        """Return the description of a chunk."""

    def frequencies(self, terms: Collection[str], dropped: Collection[str] = ()) -> Mapping[str, int]:
        """Return the number of chunks that contain each term, without the chunks of dropped documents."""

    def counted(self, dropped: Collection[str]) -> tuple[int, int]:
        """Return `chunks` and `terms` without the chunks of dropped documents."""

    def hits(self, question: SegmentQuestion) -> list[SegmentHit]:
        """Return the best `limit` hits by keywords and the best `limit` by vector, each once, with both scores."""


class Segments(Protocol):
    """Builds and opens segments. The same chunks make the same bytes."""

    def build(self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]) -> bytes:
        """Return the segment of these chunks, in this order; texts are indexed, not kept.

        Args:
            attributes: of documents, by id; those without any may be left out.
        """

    def open(self, body: bytes) -> OpenSegment:
        """Return the loaded segment. Raises ValueError for a body that is none, or of an unknown version."""

    def merge(self, parts: Sequence[tuple[OpenSegment, Collection[str]]]) -> bytes:
        """Return one segment of the chunks of several, without each part's dropped documents, in their order."""
