"""A loaded segment, wholly or without some of its documents."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.retrieval.postings import CountedPostings, Postings, positions_of, ranges, sums
from turnstone.adapters.retrieval.segment_format import Arrays, Longs, Mask, bounds_of, pieces_at, terms_in
from turnstone.ports.memory import SegmentRow

NOTHING: Mapping[str, Any] = MappingProxyType({})
DIGEST_BYTES = 16
SURROGATES = "surrogatepass"
Digests = NDArray[np.uint64]


class LoadedArrays:
    """The arrays of a body, and values that are derived from them at their first use."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    @cached_property
    def terms(self) -> NDArray[np.str_]:
        return terms_in(self.arrays)

    @cached_property
    def ordered(self) -> tuple[Longs, NDArray[np.uint64], NDArray[np.uint64]]:
        """The documents in the order of their digests, and the first and second halves of these."""
        order = order_of(self.arrays.digests)
        first, second = self.arrays.digests[order].T.copy()
        return order, first, second

    def documents_with(self, digests: Digests) -> tuple[Longs, Longs]:
        """Return the indexes of the documents with one of these digests, and those of their digests."""
        order, firsts, seconds = self.ordered
        begins, ends = (np.searchsorted(firsts, digests[:, 0], side) for side in ("left", "right"))
        near, of_near = ranges(begins, ends - begins), np.repeat(np.arange(len(digests)), ends - begins)
        is_equal = seconds[near] == digests[of_near, 1]
        return order[near[is_equal]], of_near[is_equal]


class NumpySegment:
    """A segment, of whose chunks those that `kept` marks count; all for None."""

    def __init__(self, loaded: LoadedArrays, kept: Mask | None = None) -> None:
        self.loaded = loaded
        self.kept = kept

    @property
    def arrays(self) -> Arrays:
        return self.loaded.arrays

    @cached_property
    def chunks(self) -> int:
        """The number of chunks that count."""
        return len(self.arrays.lengths) if self.kept is None else int(np.count_nonzero(self.kept))

    @cached_property
    def terms(self) -> int:
        """The number of their terms, repeated ones included."""
        lengths = self.arrays.lengths if self.kept is None else self.arrays.lengths[self.kept]
        return int(lengths.sum(dtype=np.uint64))

    def positions(self) -> Sequence[int]:
        """Return the positions of the chunks that count, ascending."""
        return range(self.chunks) if self.kept is None else np.flatnonzero(self.kept).tolist()

    def row(self, position: int) -> SegmentRow:
        """Return the description of a chunk."""
        ((metadata, attributes),) = self.described(np.array([position]))
        document = self.arrays.documents[position : position + 1]
        (name,) = pieces_at(self.arrays.name_ends, self.arrays.names, document)
        return SegmentRow(name.decode("utf-8", SURROGATES), values_in(metadata), values_in(attributes))

    def described(self, positions: Longs) -> Iterator[tuple[bytes, bytes]]:
        """Yield the metadata of each chunk and the attributes of its document as JSON, empty without any."""
        arrays = self.arrays
        metadata = pieces_at(arrays.metadata_ends, arrays.metadata, positions)
        return zip(
            metadata,
            pieces_at(arrays.attribute_ends, arrays.attributes, arrays.documents[positions]),
            strict=True,
        )

    def without(self, document_ids: Collection[str]) -> NumpySegment:
        """Return the segment without the chunks of these documents."""
        if not document_ids:
            return self
        documents, _ = self.loaded.documents_with(digests_of(document_ids))
        return self.without_these(documents)

    def positions_of(self, document_id: str) -> Sequence[int]:
        """Return the positions of the document's chunks that count, ascending."""
        documents, _ = self.loaded.documents_with(digests_of([document_id]))
        is_its = np.isin(self.arrays.documents, documents)
        return np.flatnonzero(is_its if self.kept is None else is_its & self.kept).tolist()

    def vector(self, position: int) -> Sequence[float] | None:
        """Return the vector of a chunk, of the length 1; None without one."""
        scale = self.arrays.scales[position]
        return (self.arrays.vectors[position] * scale).tolist() if scale else None

    def documents_among(self, document_ids: Sequence[str]) -> list[str]:
        """Return those documents that the segment contains, counted or not."""
        _, found = self.loaded.documents_with(digests_of(document_ids))
        return [document_ids[at] for at in found.tolist()]

    def without_these(self, documents: Longs) -> NumpySegment:
        """Return the segment without the chunks of the documents of these indexes."""
        if not len(documents):
            return self
        is_left = np.ones(len(self.arrays.digests), np.bool_)
        is_left[documents] = False
        kept = is_left[self.arrays.documents]
        return NumpySegment(self.loaded, kept if self.kept is None else kept & self.kept)

    def indexes(self, terms: NDArray[np.str_]) -> Longs:
        """Return the index of each of the terms, -1 for one that no chunk contains."""
        names = self.loaded.terms
        if not len(names):
            return np.full(len(terms), -1)
        at = np.minimum(np.searchsorted(names, terms), len(names) - 1)
        return np.where(names[at] == terms, at, -1)

    def bounds(self, terms: Longs) -> tuple[Longs, Longs]:
        """Return where the postings of the terms of these indexes begin and end."""
        return bounds_of(self.arrays.ends, terms)

    def frequencies(self, terms: Longs) -> Longs:
        """Return the number of chunks that contain each of the terms of these indexes, and count."""
        begins, ends = self.bounds(terms)
        if self.kept is None or not len(terms):
            return ends - begins
        return sums(self.kept[positions_of(self.arrays.gaps, begins, ends)], ends - begins)

    @property
    def joining(self) -> CountedPostings:
        arrays = self.arrays
        return CountedPostings(
            Postings(arrays.lengths, self.loaded.terms, arrays.ends, arrays.gaps, arrays.counts), self.kept
        )


def order_of(digests: Digests) -> Longs:
    """Return the order in which equal digests are neighbours."""
    return np.lexsort((digests[:, 1], digests[:, 0]))


def digests_of(document_ids: Collection[str]) -> Digests:
    """Return a hash of each id, equal for equal ones only, as two numbers."""
    return np.frombuffer(b"".join(map(_digest, document_ids)), np.uint64).reshape(-1, 2)


@lru_cache(maxsize=4_096)  # a search compares those of the log with every segment
def _digest(document_id: str) -> bytes:
    return blake2b(document_id.encode("utf-8", SURROGATES), digest_size=DIGEST_BYTES).digest()


def json_of(values: Mapping[str, Any]) -> bytes:
    """Return the values as JSON, empty without any."""
    text = json.dumps(dict(values), ensure_ascii=False, separators=(",", ":")) if values else ""
    return text.encode("utf-8", SURROGATES)


def values_in(text: bytes) -> Mapping[str, Any]:
    return json.loads(text) if text else NOTHING
