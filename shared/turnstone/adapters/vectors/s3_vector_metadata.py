"""Metadata and filters of S3 Vectors: a chunk as one value that no filter reads, and its short values for filters.

Names of values are hashes, and so are long or unusual texts: the service limits lengths, and stores no halves of
surrogate pairs. Large numbers are rounded. A filter of the service may thus find too much, never too little.

Source: "Metadata filtering" and "Limitations and restrictions" in the user guide of Amazon S3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Comparison, Compound, Filter

WHOLE = "chunk"  # the name of the value that no filter reads
MOST_BYTES, MOST_FILTERED_BYTES, MOST_NAMES = 40 * 1024, 2 * 1024, 50
LONGEST = 64  # characters of a text that is stored as it is, for filters
EXACT = 2**53  # the largest number up to which every whole one has its own double
LARGEST = 1e300
_UNUSUAL = re.compile("[\x00-\x1f\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def metadata_of(chunk: DocumentChunk, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a chunk's vector. Raises InvalidRequest, which names the limit that it exceeds."""
    filtered = {
        _name(name): _value(value, name)
        for name, value in {**chunk.metadata, **attributes}.items()
        if _is_scalar(value)
    }
    if len(filtered) >= MOST_NAMES:
        raise _too_large(chunk, f"{MOST_NAMES - 1} values of metadata and attributes", str(len(filtered)))
    filtered_bytes = _size(filtered)
    if filtered_bytes > MOST_FILTERED_BYTES:
        raise _too_large(chunk, f"{MOST_FILTERED_BYTES} bytes of metadata and attributes", str(filtered_bytes))
    fields = [chunk.document_id, chunk.text, chunk.tokens, dict(chunk.metadata), dict(attributes)]
    whole = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", json.dumps(fields, ensure_ascii=False))
    metadata = {**filtered, WHOLE: whole}
    if (size := _size(metadata)) > MOST_BYTES:
        raise _too_large(chunk, f"{MOST_BYTES} bytes of text, metadata and attributes", str(size))
    return metadata


def chunk_of(metadata: Mapping[str, Any], position: int) -> tuple[DocumentChunk, Mapping[str, Any]]:
    """Return the chunk of the metadata, without its vector, and its document's attributes."""
    document_id, text, tokens, own, attributes = json.loads(metadata[WHOLE])
    return DocumentChunk(document_id, position, text, tokens, own), attributes


def refuse_filters(provider_id: str, filters: Filter) -> None:
    """Raise Unsupported for an operator that the service lacks: the order of texts."""
    if isinstance(filters, Compound):
        for each in filters.filters:
            refuse_filters(provider_id, each)
    elif filters.type in ("gt", "gte", "lt", "lte") and isinstance(filters.value, str):
        problem = f"memory provider {provider_id!r} has no {filters.type!r} for texts; compare numbers, or use 'in'"
        raise Unsupported(f"filters: {problem}", ("filters",))


def filter_of(filters: Filter) -> dict[str, Any]:
    """Return the filter in the form of the service."""
    if isinstance(filters, Compound):
        parts = [filter_of(each) for each in filters.filters]
        return parts[0] if len(parts) == 1 else {f"${filters.type}": parts}
    return _comparison(filters)


def _comparison(filters: Comparison) -> dict[str, Any]:
    name = _name(filters.key)
    match filters.type:
        case "in":
            return {name: {"$in": _values(filters.value)}}
        case "nin":
            exact = [value for value in filters.value if not _is_rounded(value)]
            return _any_but(name, "$nin", _values(exact)) if exact else _anything(name)
        case "ne":
            return _anything(name) if _is_rounded(filters.value) else _any_but(name, "$ne", _value(filters.value))
    order = (
        f"{filters.type.removesuffix('e')}e" if _is_rounded(filters.value) and filters.type != "eq" else filters.type
    )
    return {name: {f"${order}": _value(filters.value)}}


def _any_but(name: str, operator: str, value: Any) -> dict[str, Any]:
    return {"$or": [{name: {operator: value}}, {name: {"$exists": False}}]}


def _anything(name: str) -> dict[str, Any]:
    return {"$or": [{name: {"$exists": True}}, {name: {"$exists": False}}]}


def _values(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(_value(value) for value in values))


def _name(name: str) -> str:
    return f"f-{_hash(name)[:20]}"


def _value(value: Any, name: str = "") -> Any:
    """Return a text, number or boolean as the service compares it. Raises InvalidRequest for too large a number."""
    if isinstance(value, str):
        is_usual = 0 < len(value) <= LONGEST and not value.startswith("#") and not _UNUSUAL.search(value)
        return value if is_usual else f"#{_hash(value)[:40]}"
    if not _is_rounded(value):
        return value
    if not abs(value) <= LARGEST:
        raise InvalidRequest(f"{name or 'filters'}: must be a number between ±{LARGEST:g} in this memory bank")
    return float(value)


def _is_rounded(value: Any) -> bool:
    return not isinstance(value, str) and not abs(value) <= EXACT


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _size(metadata: Mapping[str, Any]) -> int:
    return sum(len(name) + len(str(value).encode()) for name, value in metadata.items())


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _too_large(chunk: DocumentChunk, limit: str, found: str) -> InvalidRequest:
    named = f"chunk {chunk.position} of document {chunk.document_id!r}"
    return InvalidRequest(f"{named}: this memory bank takes at most {limit} of a chunk, not {found}")
