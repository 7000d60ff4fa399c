"""Scores of the chunks of several segments: BM25 over all of them as one corpus, and cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.retrieval.loaded_segment import NumpySegment, values_in
from turnstone.adapters.retrieval.postings import positions_of
from turnstone.adapters.retrieval.segment_format import ID_BYTES, Longs, Mask
from turnstone.domain.memory.terms import PIECE, shares_of
from turnstone.ports.memory import SegmentHit, SegmentQuestion

K1 = 1.2
B = 0.75
# Of a question, terms in more chunks than this share are not scored: they distinguish too little for their cost.
COMMON = 0.5
FEW_CHUNKS = 20  # a bank of fewer has no common terms
# Of a product of vectors at once: they stay in the processor's cache as floats, which take four times as much, and
# OpenBLAS keeps such a product in one thread; its others wait for each other longer than they work (measured).
NUMBERS_AT_ONCE = 131_072

Scores = NDArray[np.float64]
Matches = Callable[[Mapping[str, Any]], bool]


def hits_of(segments: Sequence[NumpySegment], question: SegmentQuestion) -> list[SegmentHit]:
    """Return the best hits by keywords and the best by vector, each once, with both scores."""
    found = _Found(segments)
    keywords = _keyword_scores(segments, question.terms)
    vectors = _vector_scores(segments, question.vectors)
    best = [found.best(scores, question.limit, question.matches) for scores in (keywords, vectors)]
    chosen = np.unique(np.concatenate(best))
    of_chosen = (np.maximum(scores[chosen], 0).tolist() for scores in (keywords, vectors))
    return [SegmentHit(*each) for each in zip(*found.located_ids(chosen), *of_chosen, strict=True)]


class _Found:
    """The chunks of all segments, by their number, and a memory of those that a filter matched."""

    def __init__(self, segments: Sequence[NumpySegment]) -> None:
        self._segments = segments
        self._begins = np.cumsum([0, *(len(segment.arrays.lengths) for segment in segments)])
        self._matched: dict[tuple[bytes, bytes], bool] = {}

    def located_ids(self, numbers: Longs) -> tuple[list[int], list[int], list[str]]:
        """Return the segment of each of the chunks, ascending, its position there, and its id."""
        parts = np.searchsorted(self._begins, numbers, "right") - 1
        ids = b"".join(segment.arrays.chunk_ids[positions].tobytes() for segment, positions in self._located(numbers))
        digits = 2 * ID_BYTES
        named = [ids.hex()[begin : begin + digits] for begin in range(0, digits * len(numbers), digits)]
        return parts.tolist(), (numbers - self._begins[parts]).tolist(), named

    def best(self, scores: Scores, limit: int, matches: Matches | None) -> Longs:
        """Return the best chunks of a score above 0; of equal ones at the limit, those first in order of ids."""
        at = np.flatnonzero(scores > 0)
        if matches is None:
            return self._first(scores, at, limit)
        some = limit
        while True:
            above = at if some >= len(at) else at[scores[at] >= _nth_best(scores[at], some)]
            matching = above[self._matching(above, matches)]
            if len(matching) >= limit or len(above) == len(at):
                return self._first(scores, matching, limit)
            some *= 4

    def _first(self, scores: Scores, at: Longs, limit: int) -> Longs:
        if len(at) <= limit:
            return at
        least = _nth_best(scores[at], limit)
        above, equal = at[scores[at] > least], at[scores[at] == least]
        return np.concatenate((above, self._by_id(equal)[: limit - len(above)]))

    def _by_id(self, numbers: Longs) -> Longs:
        """Return the chunks, ascending, in the order of their ids."""
        ids = [segment.arrays.chunk_ids[positions] for segment, positions in self._located(numbers)]
        halves = np.concatenate(ids).view(">u8")
        return numbers[np.lexsort((halves[:, 1], halves[:, 0]))]

    def _matching(self, numbers: Longs, matches: Matches) -> Mask:
        """Return which of the chunks, ascending, the filter matches; the same values are compared once."""
        matched, found = self._matched, []
        for segment, positions in self._located(numbers):
            for described in segment.described(positions):
                is_match = matched.get(described)
                if is_match is None:
                    metadata, attributes = map(values_in, described)
                    is_match = matched[described] = matches({**metadata, **attributes})
                found.append(is_match)
        return np.array(found, np.bool_)

    def _located(self, numbers: Longs) -> Iterator[tuple[NumpySegment, Longs]]:
        """Yield each segment with the positions of those chunks, ascending, that it has."""
        cuts = np.searchsorted(numbers, self._begins)
        for segment, first, begin, end in zip(self._segments, self._begins[:-1], cuts[:-1], cuts[1:], strict=True):
            yield segment, numbers[begin:end] - first


def _nth_best(scores: Scores, number: int) -> np.float64:
    found: np.float64 = np.partition(scores, len(scores) - number)[len(scores) - number]
    return found


def _keyword_scores(segments: Sequence[NumpySegment], words: Sequence[str]) -> Scores:
    scores = [np.zeros(len(segment.arrays.lengths)) for segment in segments]
    chunks, length = (sum(each) for each in zip(*((each.chunks, each.terms) for each in segments), strict=True))
    if words and length:
        # In one order, in which the weights of terms are added up, so that equal scores stay equal.
        shares = dict(sorted(shares_of(words).items()))
        terms = np.array(list(shares), f"<U{PIECE}")
        indexes = [segment.indexes(terms) for segment in segments]
        frequencies, is_scored = _frequencies(segments, indexes, chunks)
        weights = np.array(list(shares.values())) * np.log1p((chunks - frequencies + 0.5) / (frequencies + 0.5))
        weights /= math.fsum(weights[is_scored | (frequencies == 0)].tolist())
        for number, (segment, at) in enumerate(zip(segments, indexes, strict=True)):
            scored = is_scored & (at >= 0)
            if scored.any():
                scores[number] = _of_segment(segment, at[scored], weights[scored], chunks / length)
    return _kept(segments, np.concatenate(scores))


def _of_segment(segment: NumpySegment, terms: Longs, weights: Scores, shortness: float) -> Scores:
    """Return the sums of the terms' weights for each chunk; `shortness` is 1 divided by the mean length."""
    begins, ends = segment.bounds(terms)
    positions = positions_of(segment.arrays.gaps, begins, ends)
    bounds = zip(begins.tolist(), ends.tolist(), strict=True)
    counts = np.concatenate([segment.arrays.counts[begin:end] for begin, end in bounds])
    norms = K1 * (1 - B + B * segment.arrays.lengths * shortness)
    weighted = np.repeat(weights, ends - begins) * counts / (counts + norms[positions])
    return np.bincount(positions, weighted, len(norms)).astype(np.float64)


def _frequencies(segments: Sequence[NumpySegment], indexes: Sequence[Longs], chunks: int) -> tuple[Longs, Mask]:
    """Return the number of chunks that contain each term and count, and whether the term is scored.

    Terms are scored that occur without common ones, or all if all of them are common. Only of those that are scored is
    the number exact: to leave out chunks that do not count, all postings of a term are read.
    """
    most = COMMON * chunks if chunks >= FEW_CHUNKS else chunks
    hidden = sum(len(segment.arrays.lengths) for segment in segments) - chunks
    frequencies = _summed(segments, indexes, np.ones(len(indexes[0]), np.bool_), is_exact=not hidden)
    is_uncertain = (frequencies > 0) & (frequencies - hidden <= most)
    if hidden:
        frequencies[is_uncertain] = _summed(segments, indexes, is_uncertain, is_exact=True)[is_uncertain]
    is_rare = is_uncertain & (frequencies > 0) & (frequencies <= most)
    if is_rare.any():
        return frequencies, is_rare
    if hidden:
        frequencies = _summed(segments, indexes, frequencies > 0, is_exact=True)
    return frequencies, frequencies > 0


def _summed(segments: Sequence[NumpySegment], indexes: Sequence[Longs], which: Mask, *, is_exact: bool) -> Longs:
    """Return the number of chunks that contain each of the marked terms, and count if it is to be exact."""
    sums = np.zeros(len(which), np.int64)
    for segment, at in zip(segments, indexes, strict=True):
        found = which & (at >= 0)
        begins, ends = segment.bounds(at[found])
        sums[found] += segment.frequencies(at[found]) if is_exact else ends - begins
    return sums


def _vector_scores(segments: Sequence[NumpySegment], vectors: Sequence[Sequence[float] | None]) -> Scores:
    found = (
        _cosines(segment, () if vector is None else vector) for segment, vector in zip(segments, vectors, strict=True)
    )
    return _kept(segments, np.concatenate(list(found)))


def _cosines(segment: NumpySegment, vector: Sequence[float]) -> Scores:
    vectors = segment.arrays.vectors
    chunks, width = vectors.shape
    query = np.array(vector, np.float32)
    length = float(np.linalg.norm(query))
    if not length or width != len(query):
        return np.zeros(chunks)
    query /= length
    scores = np.empty(chunks, np.float32)
    at_once = max(1, NUMBERS_AT_ONCE // width)
    for begin in range(0, chunks, at_once):
        rows = slice(begin, begin + at_once)
        scores[rows] = vectors[rows].astype(np.float32) @ query
    return (scores * segment.arrays.scales).astype(np.float64)


def _kept(segments: Sequence[NumpySegment], scores: Scores) -> Scores:
    """Return the scores, 0 for chunks that do not count."""
    if all(segment.kept is None for segment in segments):
        return scores
    every = (
        np.ones(len(segment.arrays.lengths), np.bool_) if segment.kept is None else segment.kept for segment in segments
    )
    return np.where(np.concatenate(list(every)), scores, 0)
