"""Chunks and documents of several segments as those of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.retrieval.loaded_segment import NumpySegment
from turnstone.adapters.retrieval.segment_format import ID_BYTES, Bytes, Longs, joined, pieces_at, sizes_of

Columns = dict[str, NDArray[Any]]


def columns_of(segments: Sequence[NumpySegment]) -> Columns:
    """Return the arrays, by name, of the chunks that count and of their documents; those of postings are left out."""
    kept = [np.array(segment.positions(), np.int64) for segment in segments]
    metadata = [_metadata(segment) for segment in segments]
    sizes = np.concatenate([np.zeros(0, np.int64), *(sizes for sizes, _ in metadata)])
    found = zip(segments, kept, strict=True)
    width = max(
        (segment.arrays.vectors.shape[1] for segment, at in found if segment.arrays.scales[at].any()), default=0
    )
    vectors = [_widened(segment.arrays.vectors[at], width) for segment, at in zip(segments, kept, strict=True)]

    def rows(name: str, empty: NDArray[Any]) -> NDArray[Any]:
        found = zip(segments, kept, strict=True)
        return np.concatenate([empty, *(getattr(segment.arrays, name)[at] for segment, at in found)])

    return {
        "lengths": rows("lengths", np.zeros(0, np.uint32)),
        "scales": rows("scales", np.zeros(0, np.float32)),
        "vectors": np.concatenate([np.zeros((0, width), np.int8), *vectors]),
        "chunk_ids": rows("chunk_ids", np.zeros((0, ID_BYTES), np.uint8)),
        "metadata_ends": np.cumsum(sizes).astype(np.uint32),
        "metadata": np.concatenate([np.zeros(0, np.uint8), *(pieces for _, pieces in metadata)]),
        **_documents(segments, kept),
    }


def _documents(segments: Sequence[NumpySegment], kept: Sequence[Longs]) -> Columns:
    """Return the arrays of documents: each of them once, in the order of their first chunks."""
    numbers: dict[tuple[int, int], int] = {}
    names: list[bytes] = []
    attributes: dict[int, bytes] = {}
    of_chunks = [np.zeros(0, np.uint32)]
    for segment, at in zip(segments, kept, strict=True):
        arrays = segment.arrays
        found = np.unique(arrays.documents[at])
        renumbered = np.zeros(len(arrays.digests), np.uint32)
        described = zip(
            arrays.digests[found].tolist(),
            pieces_at(arrays.name_ends, arrays.names, found),
            pieces_at(arrays.attribute_ends, arrays.attributes, found),
            strict=True,
        )
        for document, ((first, second), name, values) in zip(found.tolist(), described, strict=True):
            number = numbers.setdefault((first, second), len(numbers))
            if number == len(names):
                names.append(name)
            attributes[number] = values
            renumbered[document] = number
        of_chunks.append(renumbered[arrays.documents[at]])
    name_ends, joined_names = joined(names)
    attribute_ends, joined_attributes = joined(list(attributes.values()))
    return {
        "documents": np.concatenate(of_chunks),
        "digests": np.array(list(numbers), np.uint64).reshape(-1, 2),
        "name_ends": name_ends,
        "names": joined_names,
        "attribute_ends": attribute_ends,
        "attributes": joined_attributes,
    }


def _metadata(segment: NumpySegment) -> tuple[Longs, Bytes]:
    """Return the length of each chunk's metadata, and all of it."""
    ends, metadata = segment.arrays.metadata_ends, segment.arrays.metadata
    if segment.kept is None:
        return sizes_of(ends), metadata
    remaining, pieces = joined(list(pieces_at(ends, metadata, np.flatnonzero(segment.kept))))
    return sizes_of(remaining), pieces


def _widened(vectors: NDArray[np.int8], width: int) -> NDArray[np.int8]:
    """Return the rows, of zeros where they have no vectors."""
    return vectors if vectors.shape[1] == width else np.zeros((vectors.shape[0], width), np.int8)
