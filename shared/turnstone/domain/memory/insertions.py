"""Chunks that a request inserts into a memory bank."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

CHUNK_NAME = "chunk-"  # the beginning of the names of chunks that were inserted alone


class GivenChunk(NamedTuple):
    """A chunk of a request.

    Attributes:
        document_id: of the document it belongs to; empty for none.
        vector: made by the client; None to have the bank's model make it.
    """

    text: str
    metadata: Mapping[str, Any]
    document_id: str = ""
    vector: Sequence[float] | None = None

    @property
    def key(self) -> str:
        """A name that the same text of the same document always has: a chunk replaces the earlier one of its name."""
        named = f"{self.document_id}\x00{self.text}"
        return CHUNK_NAME + sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
