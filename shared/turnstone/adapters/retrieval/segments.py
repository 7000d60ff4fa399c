"""Indexes of memory banks in numpy arrays: exact search by cosine and by BM25.

A body is a line of JSON, padded to eight bytes, and arrays: vectors as signed bytes with one scale each, and for each
term, in sorted order, the chunks that contain it and their counts. The same chunks make the same bytes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.terms import shares_of, terms_of
from turnstone.ports.memory import Corpus, OpenSegment, SegmentHit, SegmentQuestion, SegmentRow

VERSION = 2
K1 = 1.2
B = 0.75
ALIGNED = 8
LARGEST_BYTE = 127
# Of a question, terms in more chunks than this share are not scored: they distinguish too little for their cost.
COMMON = 0.5
FEW_CHUNKS = 20  # a bank of fewer has no common terms

NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})
Row = tuple[str, str, dict[str, Any]]  # of a chunk: its id, its document, its metadata
Floats = NDArray[np.float32]
Ints = NDArray[np.uint32]


class _Arrays(NamedTuple):
    """The arrays of a segment, in the order of its body.

    Attributes:
        lengths: the number of terms of each chunk.
        scales: the factor of each vector's bytes; 0 for a chunk without a vector.
        ends: the end of each term's postings.
        postings: the position of each chunk that contains the term, ascending.
        counts: the term's occurrences in it, up to 255.
        vectors: one row for each chunk.
        names: the terms in UTF-8, separated by line feeds.
    """

    lengths: Ints
    scales: Floats
    ends: Ints
    postings: Ints
    counts: NDArray[np.uint8]
    vectors: NDArray[np.int8]
    names: NDArray[np.uint8]


_TYPES = (np.uint32, np.float32, np.uint32, np.uint32, np.uint8, np.int8, np.uint8)


class NumpySegments:
    """Builds and opens segments."""

    def build(
        self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]] = NO_ATTRIBUTES
    ) -> bytes:
        """Return the segment of these chunks. Raises ValueError for vectors of different lengths."""
        counted = [Counter(terms_of(chunk.text)) for chunk in chunks]
        scales, vectors = _quantised([chunk.vector for chunk in chunks])
        rows = [(chunk.chunk_id, chunk.document_id, dict(chunk.metadata)) for chunk in chunks]
        lengths = np.array([counts.total() for counts in counted], np.uint32)
        names: dict[str, list[tuple[int, int]]] = {}
        for position, counts in enumerate(counted):
            for term, count in counts.items():
                names.setdefault(term, []).append((position, count))
        ordered = sorted(names)
        postings = [posting for term in ordered for posting in names[term]]
        arrays = _Arrays(
            lengths,
            scales,
            np.cumsum([len(names[term]) for term in ordered], dtype=np.uint32),
            np.array([position for position, _ in postings], np.uint32),
            np.minimum([count for _, count in postings], 255).astype(np.uint8),
            vectors,
            _bytes_of(ordered),
        )
        named = {chunk.document_id for chunk in chunks}
        return _body(rows, {name: dict(found) for name, found in attributes.items() if found and name in named}, arrays)

    def open(self, body: bytes) -> OpenSegment:
        """Return the loaded segment. Raises ValueError."""
        return NumpySegment(*_parts(body))

    def merge(self, parts: Sequence[tuple[OpenSegment, Collection[str]]]) -> bytes:
        """Return one segment of several. Raises TypeError for a segment of another adapter."""
        merged = [_own(segment).without(dropped) for segment, dropped in parts]
        return _body(*_joined(merged))


class NumpySegment:
    """A loaded segment; its arrays are views of its body."""

    def __init__(self, rows: Sequence[Row], attributes: Mapping[str, dict[str, Any]], arrays: _Arrays) -> None:
        self.rows = rows
        self.attributes = attributes
        self.arrays = arrays
        names = arrays.names.tobytes().decode()
        self.term_indexes = {term: index for index, term in enumerate(names.split("\n"))} if names else {}
        self._ids = [document_id for _, document_id, _ in rows]

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return len(self.rows)

    @property
    def terms(self) -> int:
        """The number of their terms, repeated ones included."""
        return int(self.arrays.lengths.sum(dtype=np.uint64))

    def document_ids(self) -> Sequence[str]:
        """Return the document of each chunk, in the order of positions."""
        return self._ids

    def row(self, position: int) -> SegmentRow:
        """Return the description of a chunk."""
        _, document_id, metadata = self.rows[position]
        return SegmentRow(document_id, metadata, self.attributes.get(document_id, NO_ATTRIBUTES))

    def frequencies(self, terms: Collection[str], dropped: Collection[str] = ()) -> Mapping[str, int]:
        """Return the number of chunks that contain each term, without the chunks of dropped documents."""
        kept = self._kept(dropped) if dropped else None
        found = {term: self._postings(term)[0] for term in terms if term in self.term_indexes}
        return {term: int(kept[at].sum()) if kept is not None else len(at) for term, at in found.items()}

    def counted(self, dropped: Collection[str]) -> tuple[int, int]:
        """Return `chunks` and `terms` without the chunks of dropped documents."""
        if not dropped:
            return self.chunks, self.terms
        kept = self._kept(dropped)
        return int(kept.sum()), int(self.arrays.lengths[kept].sum(dtype=np.uint64))

    def hits(self, question: SegmentQuestion) -> list[SegmentHit]:
        """Return the best hits by keywords and the best by vector, each once, with both scores."""
        keywords = self._keyword_scores(question.terms, question.corpus)
        vectors = self._vector_scores(question.vector)
        if question.is_kept is not None:
            is_kept = question.is_kept
            rows = map(self.row, range(self.chunks))
            kept = np.fromiter((is_kept(row.document_id, row.values) for row in rows), np.bool_, self.chunks)
            keywords, vectors = np.where(kept, keywords, 0), np.where(kept, vectors, 0)
        best = {*self._best(keywords, question.limit), *self._best(vectors, question.limit)}
        return [
            SegmentHit(at, self.rows[at][0], float(max(keywords[at], 0)), float(max(vectors[at], 0)))
            for at in sorted(best)
        ]

    def without(self, dropped: Collection[str]) -> NumpySegment:
        """Return the segment of the chunks of all other documents, with terms that none of them contains."""
        if not dropped:
            return self
        kept, arrays = self._kept(dropped), self.arrays
        positions = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
        remaining = kept[arrays.postings]
        left = np.concatenate(([0], np.cumsum(remaining, dtype=np.uint32))).astype(np.uint32)
        thinned = arrays._replace(
            lengths=arrays.lengths[kept],
            scales=arrays.scales[kept],
            ends=left[arrays.ends],
            postings=positions[arrays.postings[remaining]],
            counts=arrays.counts[remaining],
            vectors=arrays.vectors[kept],
        )
        rows = [row for row, is_left in zip(self.rows, kept, strict=True) if is_left]
        left_out = frozenset(dropped)
        remaining_attributes = {name: found for name, found in self.attributes.items() if name not in left_out}
        return NumpySegment(rows, remaining_attributes, thinned)

    def postings_of(self, index: int) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the positions and counts of the chunks that contain the term."""
        ends = self.arrays.ends
        begin = int(ends[index - 1]) if index else 0
        return self.arrays.postings[begin : ends[index]], self.arrays.counts[begin : ends[index]]

    def _postings(self, term: str) -> tuple[Ints, NDArray[np.uint8]]:
        return self.postings_of(self.term_indexes[term])

    def _kept(self, dropped: Collection[str]) -> NDArray[np.bool_]:
        excluded = frozenset(dropped)
        return np.fromiter((document_id not in excluded for document_id in self._ids), np.bool_, self.chunks)

    def _keyword_scores(self, terms: Sequence[str], corpus: Corpus) -> NDArray[np.float64]:
        scores = np.zeros(self.chunks)
        if not terms or not corpus.terms:
            return scores
        norms = K1 * (1 - B + B * self.arrays.lengths * (corpus.chunks / corpus.terms))
        weights = _weights(terms, corpus)
        for term, weight in weights.items():
            if term in self.term_indexes:
                at, counts = self._postings(term)
                scores[at] += weight * counts / (counts + norms[at])
        return scores / math.fsum(weights.values())

    def _vector_scores(self, vector: Sequence[float] | None) -> NDArray[np.float64]:
        if vector is None or not self.chunks or not self.arrays.vectors.size:
            return np.zeros(self.chunks)
        query = np.asarray(vector, np.float32)
        length = float(np.linalg.norm(query))
        if not length or query.shape[0] != self.arrays.vectors.shape[1]:
            return np.zeros(self.chunks)
        scores = np.empty(self.chunks, np.float32)
        for begin in range(0, self.chunks, 4_096):  # as floats, four times as large, a part at a time
            rows = slice(begin, begin + 4_096)
            scores[rows] = self.arrays.vectors[rows].astype(np.float32) @ (query / length)
        cosines: NDArray[np.float64] = (scores * self.arrays.scales).astype(np.float64)
        return cosines

    def _best(self, scores: NDArray[np.float64], limit: int) -> Iterable[int]:
        """Return the positions of the best scores above 0; of equal ones at the limit, those first in order of ids."""
        at = np.flatnonzero(scores > 0)
        if len(at) > limit:
            least = np.partition(scores[at], len(at) - limit)[len(at) - limit]
            above, equal = at[scores[at] > least], at[scores[at] == least]
            by_id = sorted((int(each) for each in equal), key=lambda each: self.rows[each][0])
            return [*map(int, above), *by_id[: limit - len(above)]]
        return map(int, at)


def _weights(terms: Sequence[str], corpus: Corpus) -> dict[str, float]:
    """Return the weight of each term, without common ones, or of all if all of those that occur are common.

    They have one order, in which scores are added up, so that equal scores stay equal.
    """
    most = COMMON * corpus.chunks if corpus.chunks >= FEW_CHUNKS else corpus.chunks
    shares = shares_of(terms)
    frequencies = {term: corpus.frequencies.get(term, 0) for term in sorted(shares)}
    kept = [term for term, frequency in frequencies.items() if frequency <= most]
    if not any(frequencies[term] for term in kept):
        kept = list(frequencies)
    return {
        term: shares[term] * math.log1p((corpus.chunks - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
        for term in kept
    }


def _own(segment: OpenSegment) -> NumpySegment:
    if not isinstance(segment, NumpySegment):
        raise TypeError("a segment of another adapter can't be merged")
    return segment


def _joined(parts: Sequence[NumpySegment]) -> tuple[list[Row], dict[str, dict[str, Any]], _Arrays]:
    offsets = np.cumsum([0, *(part.chunks for part in parts)])
    names = sorted({term for part in parts for term in part.term_indexes})
    postings, counts, ends, total, kept = [], [], [], 0, []
    for term in names:
        before = total
        for part, offset in zip(parts, offsets[:-1], strict=True):
            if (index := part.term_indexes.get(term)) is not None:
                at, of_term = part.postings_of(index)
                postings.append(at + np.uint32(offset))
                counts.append(of_term)
                total += len(at)
        if total > before:  # else only dropped documents contained it
            kept.append(term)
            ends.append(total)
    width = max((part.arrays.vectors.shape[1] for part in parts if part.chunks), default=0)
    arrays = _Arrays(
        np.concatenate([part.arrays.lengths for part in parts] or [np.zeros(0, np.uint32)]),
        np.concatenate([part.arrays.scales for part in parts] or [np.zeros(0, np.float32)]),
        np.array(ends, np.uint32),
        np.concatenate(postings or [np.zeros(0, np.uint32)]).astype(np.uint32),
        np.concatenate(counts or [np.zeros(0, np.uint8)]),
        np.concatenate([_widened(part.arrays.vectors, width) for part in parts] or [np.zeros((0, 0), np.int8)]),
        _bytes_of(kept),
    )
    attributes = {name: found for part in parts for name, found in part.attributes.items()}
    return [row for part in parts for row in part.rows], attributes, arrays


def _widened(vectors: NDArray[np.int8], width: int) -> NDArray[np.int8]:
    """Return the rows, of zeros where they have no vectors."""
    return vectors if vectors.shape[1] == width else np.zeros((vectors.shape[0], width), np.int8)


def _quantised(vectors: Sequence[Sequence[float] | None]) -> tuple[Floats, NDArray[np.int8]]:
    """Return the scale and bytes of each vector, which as a product have the length 1."""
    width = next((len(vector) for vector in vectors if vector is not None), 0)
    rows = np.zeros((len(vectors), width), np.float32)
    for index, vector in enumerate(vectors):
        if vector is not None:
            rows[index] = vector
    largest = np.abs(rows).max(axis=1, initial=0)
    quantised = np.rint(rows * (LARGEST_BYTE / np.where(largest > 0, largest, 1))[:, None]).astype(np.int8)
    lengths = np.linalg.norm(quantised.astype(np.float32), axis=1)
    scales = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1), 0).astype(np.float32)
    return scales, quantised


def _bytes_of(terms: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(terms).encode(), np.uint8)


def _body(rows: Sequence[Row], attributes: Mapping[str, dict[str, Any]], arrays: _Arrays) -> bytes:
    shapes = [array.shape for array in arrays]
    head = {"version": VERSION, "rows": rows, "attributes": attributes, "shapes": shapes}
    line = json.dumps(head, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    pieces = [line.rjust(len(line) + -len(line) % ALIGNED)]
    for array in arrays:
        piece = np.ascontiguousarray(array).tobytes()
        pieces.append(piece.ljust(len(piece) + -len(piece) % ALIGNED, b"\0"))
    return b"".join(pieces)


def _parts(body: bytes) -> tuple[list[Row], dict[str, dict[str, Any]], _Arrays]:
    end = body.find(b"\n") + 1
    try:
        head = json.loads(body[:end])
        is_readable = head["version"] == VERSION
        rows, shapes = [(row[0], row[1], row[2]) for row in head["rows"]], head["shapes"]
        attributes = head["attributes"] if is_readable else {}
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise ValueError("this is no segment of a memory bank") from problem
    if not is_readable:
        raise ValueError(f"this version reads segments of version {VERSION}, not {head['version']!r}")
    arrays, begin = [], end
    for kind, shape in zip(_TYPES, shapes, strict=True):
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(body, kind, count, begin).reshape(shape))
        size = count * np.dtype(kind).itemsize
        begin += size + -size % ALIGNED
    return rows, attributes, _Arrays(*arrays)
