"""Objects of the operator's bucket, outside of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol


class UploadedObject(NamedTuple):
    """An object as it is now.

    Attributes:
        version: differs for every other content under the key.
        media_type: as declared by its creator, which may be none of any use.
        pieces: its bytes, read on iteration, which raises StoreUnavailable.
    """

    version: str
    size_bytes: int
    media_type: str
    pieces: Iterator[bytes]


class Objects(Protocol):
    def opened(self, key: str) -> AbstractContextManager[UploadedObject | None]:
        """Open the object within the block; None for a missing one. Raises StoreUnavailable."""
