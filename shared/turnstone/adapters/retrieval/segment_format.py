"""The bytes of a segment: a line of JSON, padded to eight bytes, then arrays, each of them aligned to eight.

The line states the version, and the shape and type of each array. A loaded segment reads the arrays where they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from turnstone.domain.memory.terms import PIECE

VERSION = 3
ALIGNED = 8
ID_BYTES = 16
MOST_SHORT = 65_536  # chunks of a segment whose positions take two bytes each

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Ints = NDArray[np.uint32]
Mask = NDArray[np.bool_]
Positions = NDArray[np.uint16] | NDArray[np.uint32]
Longs = NDArray[np.int64]
Shapes = Mapping[str, tuple[int, ...]]


class Arrays(NamedTuple):
    """The arrays of a segment, in the order of its body. A text's end is where it ends among the bytes of its kind.

    Attributes:
        lengths: the number of terms of each chunk, repeated ones included.
        scales: the factor of each vector's bytes; 0 for a chunk without a vector.
        vectors: one row for each chunk.
        chunk_ids: of each chunk, half a byte for each digit.
        documents: the index of each chunk's document.
        metadata_ends: of each chunk's metadata, as JSON, empty without any.
        digests: a hash of each document's id.
        name_ends: of each document's id.
        attribute_ends: of each document's attributes, as JSON, empty without any.
        terms: the letters of each term, in sorted order.
        ends: the end of each term's postings.
        gaps: for each term, the chunks that contain it, ascending: the first one's position, then the differences.
        counts: the term's occurrences in each of them, up to 255.
    """

    lengths: Ints
    scales: Floats
    vectors: NDArray[np.int8]
    chunk_ids: Bytes
    documents: Ints
    metadata_ends: Ints
    metadata: Bytes
    digests: NDArray[np.uint64]
    name_ends: Ints
    names: Bytes
    attribute_ends: Ints
    attributes: Bytes
    terms: Ints
    ends: Ints
    gaps: Positions
    counts: Bytes


_TYPES: Mapping[str, DTypeLike] = {
    **dict.fromkeys(Arrays._fields, np.uint32),
    **dict.fromkeys(("chunk_ids", "metadata", "names", "attributes", "counts"), np.uint8),
    "scales": np.float32,
    "vectors": np.int8,
    "digests": np.uint64,
}


def body_of(shapes: Shapes, fill: Callable[[Arrays], None]) -> bytes:
    """Return the body of such arrays, which `fill` receives as zeros: so a large body is in memory once."""
    kinds = {name: np.dtype(_kind(name, shapes)) for name in Arrays._fields}
    arrays = {name: [kinds[name].str, *shapes[name]] for name in Arrays._fields}
    line = json.dumps({"version": VERSION, "arrays": arrays}, separators=(",", ":")).encode() + b"\n"
    line = line.rjust(len(line) + -len(line) % ALIGNED)
    sizes = [_padded(_count(shapes[name]) * kinds[name].itemsize) for name in Arrays._fields]
    body = BytesIO(bytes(len(line) + sum(sizes)))
    body.write(line)
    fill(_views(body.getbuffer(), len(line), [(kinds[name], shapes[name]) for name in Arrays._fields]))
    return body.getvalue()  # no copy, because the arrays are gone


def arrays_in(body: bytes) -> Arrays:
    """Return the arrays of a body. Raises ValueError."""
    end = body.find(b"\n") + 1
    try:
        head = json.loads(body[:end])
        version = head["version"]
        arrays = (
            [(np.dtype(kind), tuple(shape)) for kind, *shape in head["arrays"].values()] if version == VERSION else []
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError("this is no segment of a memory bank") from problem
    if version != VERSION:
        raise ValueError(f"this version reads segments of version {VERSION}, not {version!r}")
    return _views(body, end, arrays)


def terms_in(arrays: Arrays) -> NDArray[np.str_]:
    """Return the terms of a segment as texts."""
    return arrays.terms.view(f"<U{PIECE}").reshape(-1)


def letters_of(terms: NDArray[np.str_]) -> Ints:
    """Return the terms as the array of a segment."""
    return np.ascontiguousarray(terms, f"<U{PIECE}").view(np.uint32).reshape(len(terms), PIECE)


def joined(pieces: Sequence[bytes]) -> tuple[Ints, Bytes]:
    """Return the ends of the pieces, and all of them as one."""
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return ends.astype(np.uint32), np.frombuffer(b"".join(pieces), np.uint8)


def sizes_of(ends: Ints) -> Longs:
    """Return the lengths of runs with these ends."""
    sizes = ends.astype(np.int64)
    sizes[1:] -= sizes[:-1].copy()
    return sizes


def bounds_of(ends: Ints, indexes: Longs | Ints) -> tuple[Longs, Longs]:
    """Return where the runs of these indexes begin and end."""
    if not len(indexes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    wide = indexes.astype(np.int64)
    return np.where(wide > 0, ends[wide - 1], 0).astype(np.int64), ends[wide].astype(np.int64)


def pieces_at(ends: Ints, pieces: Bytes, indexes: Longs | Ints) -> Iterator[bytes]:
    """Yield the pieces of these indexes."""
    whole = pieces.data
    begins, ends_there = bounds_of(ends, indexes)
    return (bytes(whole[begin:end]) for begin, end in zip(begins.tolist(), ends_there.tolist(), strict=True))


def _views(body: bytes | memoryview, begin: int, arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> Arrays:
    found = []
    for kind, shape in arrays:
        count = _count(shape)
        found.append(np.frombuffer(body, kind, count, begin).reshape(shape))
        begin += _padded(count * kind.itemsize)
    return Arrays(*found)


def _kind(name: str, shapes: Shapes) -> DTypeLike:
    if name == "gaps":
        return np.uint16 if shapes["lengths"][0] <= MOST_SHORT else np.uint32
    return _TYPES[name]


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _padded(size: int) -> int:
    return size + -size % ALIGNED
