"""Reading of documents: files of many types to texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.memory.extraction import DocumentFile, Extracted
    from turnstone.domain.values.cancellation import StopSignal


class Extractor(Protocol):
    """Reads the text of a document, in bounded time and memory, whatever the document contains."""

    def extract(self, document: DocumentFile, stop: StopSignal | None = None) -> Extracted:
        """Return the text.

        Args:
            stop: cancels the reading from another thread.

        Raises:
            ExtractionFailed: the document has no text, or none that this server can read; or it was cancelled.
        """
