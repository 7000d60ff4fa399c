"""Texts of documents: plain text and tables are read here, other types in a process of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.adapters.extracting.document_types import (
    FIRST_BYTES,
    OLD_OFFICE,
    TAB_SEPARATED,
    DocumentKind,
    charset_of,
    old_office,
    type_of,
)
from turnstone.adapters.extracting.reading_process import ReadingProcesses
from turnstone.adapters.extracting.text_decoding import beginning_of, text_in
from turnstone.domain.memory.extraction import DocumentFile, Extracted, unreadable

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

WITH_HEADINGS = (DocumentKind.MARKDOWN, DocumentKind.HTML, DocumentKind.WORD)


class DocumentExtractor:
    """Reads documents of every type in `document_types`."""

    def __init__(self, processes: ReadingProcesses) -> None:
        self._processes = processes

    def extract(self, document: DocumentFile, stop: StopSignal | None = None) -> Extracted:
        """Return the text. Raises ExtractionFailed."""
        beginning = beginning_of(document.file, FIRST_BYTES)
        if not beginning:
            raise unreadable("the document is empty; upload it with its content")
        kind, mime_type = type_of(document.mime_type, document.name, beginning)
        charset = charset_of(document.mime_type)
        if kind is DocumentKind.WORD and beginning.startswith(OLD_OFFICE):
            raise old_office()
        match kind:
            case DocumentKind.TEXT | DocumentKind.MARKDOWN:
                text = text_in(document.file, charset)
            case DocumentKind.TABLE:
                from turnstone.adapters.extracting.tables import table_text

                text = table_text(document.file, charset, "\t" if mime_type == TAB_SEPARATED.mime_type else None)
            case DocumentKind.HTML | DocumentKind.WORD | DocumentKind.PDF:
                text = self._processes.text(kind, document.file, charset, stop)
        if not text or text.isspace():
            raise unreadable("the document has no text; upload one that has")
        return Extracted(text, kind in WITH_HEADINGS, mime_type)
