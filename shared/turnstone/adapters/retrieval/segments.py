"""Longs of memory banks in numpy arrays: exact search by cosine and by BM25.

Vectors are signed bytes with one scale each. A segment is built a block of chunks at a time, and the blocks are joined,
so that little is in memory beside its bytes. The same chunks make the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.retrieval.loaded_segment import (
    NOTHING,
    SURROGATES,
    Digests,
    LoadedArrays,
    NumpySegment,
    digests_of,
    json_of,
    order_of,
)
from turnstone.adapters.retrieval.merged_columns import columns_of
from turnstone.adapters.retrieval.postings import join_into, join_terms, postings_of
from turnstone.adapters.retrieval.scoring import hits_of
from turnstone.adapters.retrieval.segment_format import (
    ID_BYTES,
    Arrays,
    Floats,
    Longs,
    Mask,
    arrays_in,
    body_of,
    joined,
    letters_of,
)
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.memory import OpenSegment, SegmentHit, SegmentQuestion

LARGEST_BYTE = 127
BLOCK_CHUNKS = 256
BLOCK_LETTERS = 1_048_576


class NumpySegments:
    """Builds, opens, merges and searches segments. Raises TypeError for segments of another adapter."""

    def build(self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]] = NOTHING) -> bytes:
        """Return the segment of these chunks. Raises ValueError for vectors of different lengths."""
        blocks = [_block(some, attributes) for some in _blocks(chunks)]
        return blocks[0] if len(blocks) == 1 else _merged([_opened(block) for block in blocks])

    def open(self, body: bytes) -> OpenSegment:
        """Return the loaded segment. Raises ValueError."""
        return _opened(body)

    def merge(self, segments: Sequence[OpenSegment]) -> bytes:
        """Return one segment of the chunks of all that count."""
        return _merged([_own(segment) for segment in segments])

    def layered(self, layers: Sequence[tuple[OpenSegment, Collection[str]]]) -> list[OpenSegment]:
        """Return the segments without documents that later layers contain or drop."""
        if not layers:
            return []
        segments = [_own(segment) for segment, _ in layers]
        named = [segment.arrays.digests for segment in segments] + [digests_of(dropped) for _, dropped in layers]
        digests = np.concatenate(named)
        numbers = np.repeat(np.tile(np.arange(len(layers)), 2), [len(some) for some in named])
        is_replaced = _earlier(digests, numbers)
        cuts = np.cumsum([len(segment.arrays.digests) for segment in segments])
        of_each = np.split(is_replaced[: cuts[-1]], cuts[:-1])
        return [
            segment.without_these(np.flatnonzero(replaced)) for segment, replaced in zip(segments, of_each, strict=True)
        ]

    def hits(self, segments: Sequence[OpenSegment], question: SegmentQuestion) -> list[SegmentHit]:
        """Return the best hits by keywords and the best by vector, each once, with both scores."""
        return hits_of([_own(segment) for segment in segments], question) if segments else []


def _own(segment: OpenSegment) -> NumpySegment:
    if not isinstance(segment, NumpySegment):
        raise TypeError("this is a segment of another adapter")
    return segment


def _opened(body: bytes) -> NumpySegment:
    return NumpySegment(LoadedArrays(arrays_in(body)))


def _blocks(chunks: Sequence[DocumentChunk]) -> Iterator[Sequence[DocumentChunk]]:
    """Yield some chunks at a time, one block at least."""
    begin, letters = 0, 0
    for end, chunk in enumerate(chunks):
        if end > begin and (end - begin == BLOCK_CHUNKS or letters + len(chunk.text) > BLOCK_LETTERS):
            yield chunks[begin:end]
            begin, letters = end, 0
        letters += len(chunk.text)
    yield chunks[begin:]


def _block(chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]) -> bytes:
    numbers: dict[str, int] = {}
    documents = [numbers.setdefault(chunk.document_id, len(numbers)) for chunk in chunks]
    postings = postings_of([chunk.text for chunk in chunks])
    scales, vectors = _quantised([chunk.vector for chunk in chunks])
    ids = np.frombuffer(bytes.fromhex("".join(chunk.chunk_id for chunk in chunks)), np.uint8)
    name_ends, names = joined([name.encode("utf-8", SURROGATES) for name in numbers])
    metadata_ends, metadata = joined([json_of(chunk.metadata) for chunk in chunks])
    attribute_ends, of_documents = joined([json_of(attributes.get(name, NOTHING)) for name in numbers])
    return _body(
        Arrays(
            postings.lengths,
            scales,
            vectors,
            ids.reshape(len(chunks), ID_BYTES),
            np.array(documents, np.uint32),
            metadata_ends,
            metadata,
            digests_of(numbers),
            name_ends,
            names,
            attribute_ends,
            of_documents,
            letters_of(postings.terms),
            postings.ends,
            postings.gaps,
            postings.counts,
        )
    )


def _body(found: Arrays) -> bytes:
    def fill(arrays: Arrays) -> None:
        for array, of_body in zip(found, arrays, strict=True):
            of_body[...] = array

    return body_of({name: array.shape for name, array in found._asdict().items()}, fill)


def _merged(segments: Sequence[NumpySegment]) -> bytes:
    parts = [segment.joining for segment in segments]
    terms, ends, targets = join_terms(parts)
    columns = {**columns_of(segments), "terms": letters_of(terms), "ends": ends}
    postings = int(ends[-1]) if len(ends) else 0
    shapes = {name: array.shape for name, array in columns.items()}

    def fill(arrays: Arrays) -> None:
        named = arrays._asdict()
        for name, column in columns.items():
            named[name][...] = column
        join_into(arrays.gaps, arrays.counts, ends, parts, targets)

    return body_of({**shapes, "gaps": (postings,), "counts": (postings,)}, fill)


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


def _earlier(digests: Digests, layers: Longs) -> Mask:
    """Return whether a later layer has the same digest."""
    order = order_of(digests)
    ordered, of_each = digests[order], layers[order]
    begins = np.flatnonzero(np.concatenate(([True], (ordered[1:] != ordered[:-1]).any(axis=1))))
    latest = np.maximum.reduceat(of_each, begins) if len(order) else of_each
    found = np.empty(len(order), np.bool_)
    found[order] = of_each < np.repeat(latest, np.diff(begins, append=len(order)))
    return found
