"""The records of a bank's content: changes in the log, the manifest, and pages of texts."""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.memory.documents import DocumentChunk
from turnstone.ports.records import Key, Put, Record


class SegmentEntry(NamedTuple):
    """A segment in the manifest.

    Attributes:
        chunks: their number, those included that newer segments replace.
        dropped: documents without chunks since then: those in older segments do not count.
        replaced: how many of its chunks newer segments replaced or dropped when that was last counted.
    """

    name: str
    chunks: int
    dropped: tuple[str, ...] = ()
    replaced: int = 0

    @property
    def living(self) -> int:
        """The number of its chunks without those counted as replaced."""
        return self.chunks - self.replaced


class Manifest(NamedTuple):
    """The segments of a bank, the oldest first, and the record's revision."""

    segments: tuple[SegmentEntry, ...]
    rev: int

    @property
    def chunks(self) -> int:
        """The number of chunks, without those counted as replaced."""
        return sum(segment.living for segment in self.segments)


class BankChange(NamedTuple):
    """An operation on a document: its chunks and attributes, which replace all it had.

    Attributes:
        chunks: None if the document is dropped.
        attributes: values for filters, found with each of its chunks; they win over metadata of the same name.
    """

    document_id: str
    chunks: tuple[DocumentChunk, ...] | None
    attributes: Mapping[str, Any] = MappingProxyType({})

    @property
    def size(self) -> int:
        """The number of its chunks, one at least."""
        return len(self.chunks or ()) or 1


class LoggedChange(NamedTuple):
    """A stored change.

    Attributes:
        version: differs from that of every other one.
        size: the number of its chunks, one at least.
    """

    key: Key
    version: str
    size: int
    body: bytes

    def change(self) -> BankChange:
        """Return the change, read from its record each time."""
        fields = from_json(self.body)
        document_id, found = fields["document_id"], fields["chunks"]
        chunks = None if found is None else tuple(_chunk_in(document_id, each) for each in found)
        return BankChange(document_id, chunks, fields.get("attributes", {}))


class ChunkText(NamedTuple):
    """What a segment's index leaves to its pages of texts."""

    position: int
    tokens: int
    text: str


def put_change(key: Key, change: BankChange, version: str) -> Put:
    chunks = None if change.chunks is None else [_fields_of(chunk) for chunk in change.chunks]
    fields: dict[str, Any] = {"document_id": change.document_id, "chunks": chunks}
    if change.attributes:
        fields["attributes"] = dict(change.attributes)
    return Put(key, to_json(fields), {"version": version, "size": change.size})


def logged_in(record: Record) -> LoggedChange:
    """Return the change of a record of the log."""
    attributes = record.attributes
    return LoggedChange(record.key, str(attributes["version"]), int(attributes.get("size", 1)), record.body)


def manifest_body(segments: Sequence[SegmentEntry]) -> bytes:
    return to_json({"segments": [tuple(segment) for segment in segments]})


def manifest_in(record: Record) -> Manifest:
    """Return the manifest of its record."""
    entries = (SegmentEntry(name, chunks, tuple(dropped), *more) for name, chunks, dropped, *more in _entries(record))
    return Manifest(tuple(entries), record.rev)


def page_body(texts: Sequence[ChunkText]) -> bytes:
    return to_json(texts)


def texts_in(record: Record) -> tuple[ChunkText, ...]:
    """Return the texts of a page."""
    return tuple(ChunkText(*fields) for fields in from_json(record.body))


EMPTY_MANIFEST = manifest_body(())


def _entries(record: Record) -> list[list[Any]]:
    entries: list[list[Any]] = from_json(record.body)["segments"]
    return entries


def _fields_of(chunk: DocumentChunk) -> dict[str, Any]:
    fields: dict[str, Any] = {"position": chunk.position, "text": chunk.text, "tokens": chunk.tokens}
    if chunk.metadata:
        fields["metadata"] = chunk.metadata
    if chunk.vector is not None:
        fields["vector"] = b64encode(array("f", chunk.vector).tobytes()).decode()
    return fields


def _chunk_in(document_id: str, fields: dict[str, Any]) -> DocumentChunk:
    vector = None
    if "vector" in fields:
        vector = array("f")
        vector.frombytes(b64decode(fields["vector"]))
    return DocumentChunk(
        document_id, fields["position"], fields["text"], fields["tokens"], fields.get("metadata", {}), vector
    )
