"""Content of memory banks: documents as chunks, values and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple


class DocumentChunk(NamedTuple):
    """A part of a document, found as a whole.

    Attributes:
        position: the index among the chunks of the document, from 0.
        tokens: the number of tokens of the text.
        metadata: of the chunk alone; its document's attributes are not repeated in it.
        vector: of the bank's dimension; None in a bank without vectors.
    """

    document_id: str
    position: int
    text: str
    tokens: int
    metadata: Mapping[str, Any]
    vector: Sequence[float] | None = None

    @property
    def chunk_id(self) -> str:
        """The id: a hash of document, position and text, so the same content has the same id everywhere."""
        named = f"{self.document_id}\x00{self.position}\x00{self.text}"
        return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class ChunkedDocument(NamedTuple):
    """A document as inserted.

    Attributes:
        attributes: values for filters, changeable later.
    """

    document_id: str
    chunks: tuple[DocumentChunk, ...]
    attributes: Mapping[str, Any]
    mime_type: str = "text/plain"


class Edge(NamedTuple):
    """A statement in a graph bank; `text` replaces the sentence composed of the three names."""

    subject: str
    relation: str
    object: str
    text: str | None = None
