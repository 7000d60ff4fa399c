"""Postings: for each term, in sorted order, the chunks that contain it and how often.

They are made of texts a block at a time, and joined a piece at a time, so that little is in memory beside them.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.retrieval.segment_format import Bytes, Ints, Longs, Mask, Positions, sizes_of
from turnstone.domain.memory.terms import PIECE, indexed_pieces_of, pieces_of, words_of

MOST_COUNTED = 255
PIECE_POSTINGS = 65_536  # decoded at a time
COUNT_BITS = POSITION_BITS = 16


class Postings(NamedTuple):
    """The terms of some chunks, see the arrays of a segment of the same names."""

    lengths: Ints
    terms: NDArray[np.str_]
    ends: Ints
    gaps: Positions
    counts: Bytes


class CountedPostings(NamedTuple):
    """Postings to join: without the chunks that `kept`, if there is one, does not mark."""

    postings: Postings
    kept: Mask | None


def postings_of(texts: Sequence[str]) -> Postings:
    """Return the postings of 65,536 texts at most. Each different word is cut into its pieces once."""
    words, times, sizes, vocabulary = _counted_words(texts)
    terms: defaultdict[str, int] = defaultdict(count().__next__)
    pieces, piece_sizes, word_lengths = array("I"), array("I"), array("I")
    for word in vocabulary:
        found = indexed_pieces_of(word)
        pieces.extend(map(terms.__getitem__, found))
        piece_sizes.append(len(found))
        word_lengths.append(len(pieces_of(word)))
    sorted_terms = sorted(terms)
    ranks = np.empty(len(terms), np.uint64)
    ranks[[terms[term] for term in sorted_terms]] = np.arange(len(terms), dtype=np.uint64)
    of_word = _indexes(piece_sizes)
    of_each = of_word[words]
    chunks = np.repeat(np.arange(len(texts)), sizes)
    lengths = np.bincount(chunks, times * _indexes(word_lengths)[words], len(texts)).astype(np.uint32)
    at = ranges((np.cumsum(of_word) - of_word)[words], of_each)
    keys = ranks[_indexes(pieces)[at]] << np.uint64(COUNT_BITS + POSITION_BITS)
    keys |= np.repeat(chunks.astype(np.uint64) << np.uint64(COUNT_BITS), of_each)
    keys |= np.repeat(np.minimum(times, (1 << COUNT_BITS) - 1).astype(np.uint64), of_each)
    return _of_sorted(np.sort(keys), lengths, np.array(sorted_terms, f"<U{PIECE}"))


def frequencies_of(joining: CountedPostings) -> Longs:
    """Return the number of chunks that contain each term, and count."""
    postings, kept = joining
    if kept is None:
        return sizes_of(postings.ends)
    found = np.zeros(len(postings.ends), np.int64)
    for terms, positions, sizes in _decoded(postings):
        found[terms] = sums(kept[positions], sizes)
    return found


def join_terms(parts: Sequence[CountedPostings]) -> tuple[NDArray[np.str_], Ints, list[Longs]]:
    """Return the terms of all parts that occur, the ends of their postings, and the indexes of each part's terms."""
    frequencies = [frequencies_of(part) for part in parts]
    every = np.concatenate([part.postings.terms for part in parts])
    terms, targets = np.unique(every, return_inverse=True)
    totals = np.bincount(targets, np.concatenate(frequencies), len(terms)).astype(np.int64)
    is_left = totals > 0
    renumbered = (np.cumsum(is_left) - 1)[targets]
    cuts = np.cumsum([len(part.postings.terms) for part in parts])[:-1]
    return terms[is_left], np.cumsum(totals[is_left]).astype(np.uint32), np.split(renumbered, cuts)


def join_into(
    gaps: Positions, counts: Bytes, ends: Ints, parts: Sequence[CountedPostings], targets: Sequence[Longs]
) -> None:
    """Fill the arrays with the postings of all parts, in the order of the parts."""
    begins = _begins(ends)
    following, offset = begins.copy(), 0
    for (postings, kept), of_part in zip(parts, targets, strict=True):
        moved = np.arange(offset, offset + len(postings.lengths))
        if kept is not None:
            moved = offset + np.cumsum(kept) - 1
        for terms, positions, sizes in _decoded(postings):
            found, of_terms = postings.counts[_bounds(postings, terms)], of_part[terms]
            if kept is not None:
                remaining = kept[positions]
                sizes = sums(remaining, sizes)
                positions, found = positions[remaining], found[remaining]
                of_terms, sizes = of_terms[sizes > 0], sizes[sizes > 0]
            to = ranges(following[of_terms], sizes)
            gaps[to] = moved[positions]
            counts[to] = found
            following[of_terms] += sizes
        offset += len(moved) if kept is None else int(np.count_nonzero(kept))
    _subtract(gaps, begins)


def positions_of(gaps: Positions, begins: Longs, ends: Longs) -> Longs:
    """Return the positions in the postings of some terms, of at least one chunk each, one term after the other."""
    if not len(begins):
        return np.zeros(0, np.int64)
    some = np.concatenate([gaps[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)])
    return _summed(some, ends - begins)


def _counted_words(texts: Sequence[str]) -> tuple[Longs, Longs, Longs, defaultdict[str, int]]:
    """Return each text's words as indexes of the vocabulary, how often each occurs, and their number in each text."""
    vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
    words, times, sizes = array("I"), array("I"), array("I")
    for text in texts:
        counted = Counter(words_of(text))
        words.extend(map(vocabulary.__getitem__, counted))
        times.extend(counted.values())
        sizes.append(len(counted))
    return _indexes(words), _indexes(times), _indexes(sizes), vocabulary


def _of_sorted(keys: NDArray[np.uint64], lengths: Ints, terms: NDArray[np.str_]) -> Postings:
    """Return the postings of keys that are made of a term's rank, a position and a count."""
    pairs = keys >> np.uint64(COUNT_BITS)
    begins = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1]))) if len(keys) else np.zeros(0, np.int64)
    counts = np.add.reduceat(keys & np.uint64((1 << COUNT_BITS) - 1), begins) if len(keys) else keys
    pairs = pairs[begins]
    ranks = (pairs >> np.uint64(POSITION_BITS)).astype(np.int64)
    gaps = (pairs & np.uint64((1 << POSITION_BITS) - 1)).astype(np.uint16)
    ends = np.cumsum(np.bincount(ranks, minlength=len(terms))).astype(np.uint32)
    _subtract(gaps, _begins(ends))
    return Postings(lengths, terms, ends, gaps, np.minimum(counts, MOST_COUNTED).astype(np.uint8))


def _begins(ends: Ints) -> Longs:
    """Return where the postings of each term begin."""
    return ends.astype(np.int64) - sizes_of(ends)


def _subtract(positions: Positions, begins: Longs) -> None:
    """Replace positions, of terms that begin there, by the gaps between them."""
    first = positions[begins]
    for end in range(len(positions), 1, -PIECE_POSTINGS):  # from the last one on: each is subtracted from its follower
        begin = max(1, end - PIECE_POSTINGS)
        positions[begin:end] -= positions[begin - 1 : end - 1].copy()
    positions[begins] = first


def _decoded(postings: Postings) -> Iterator[tuple[slice, Longs, Longs]]:
    """Yield some terms at a time, the positions in their postings, and the number of each term's."""
    ends, begin = postings.ends.astype(np.int64), 0
    while begin < len(ends):
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + PIECE_POSTINGS, "right")))
        sizes = np.diff(ends[begin:end], prepend=before)
        terms = slice(begin, end)
        yield terms, _summed(postings.gaps[_bounds(postings, terms)], sizes), sizes
        begin = end


def _bounds(postings: Postings, terms: slice) -> slice:
    """Return where the postings of these terms are."""
    return slice(int(postings.ends[terms.start - 1]) if terms.start else 0, int(postings.ends[terms.stop - 1]))


def _summed(gaps: Positions, sizes: Longs) -> Longs:
    """Return the sums of gaps, which start again with each term."""
    sums = np.cumsum(gaps, dtype=np.int64)
    begins = np.cumsum(sizes) - sizes
    sums -= np.repeat(sums[begins] - gaps[begins], sizes)
    return sums


def sums(marks: Mask, sizes: Longs) -> Longs:
    """Return the number of marks in each of the runs of these sizes, of one at least."""
    found: Longs = np.add.reduceat(marks, np.cumsum(sizes) - sizes, dtype=np.int64)
    return found


def ranges(begins: Longs, sizes: Longs) -> Longs:
    """Return ranges of numbers, of these beginnings and sizes, one after the other."""
    offsets = np.cumsum(sizes)
    total = int(offsets[-1]) if len(offsets) else 0
    found: Longs = np.arange(total) + np.repeat(begins - (offsets - sizes), sizes)
    return found


def _indexes(numbers: array[int]) -> Longs:
    found: Longs = np.asarray(numbers, np.int64)
    return found
