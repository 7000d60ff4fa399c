"""PDF as text, page by page. Only the process that reads one document loads `pypdf`."""

from __future__ import annotations

import logging
from typing import IO

import pypdf

from turnstone.adapters.extracting.text_decoding import squeezed
from turnstone.domain.memory.extraction import MAX_TEXT_BYTES, too_long, unreadable


def pdf_text(file: IO[bytes]) -> str:
    """Return the text of the pages, as paragraphs. Raises ExtractionFailed; other errors are of a damaged document."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise unreadable("the PDF is encrypted with a password; save it without one")
    pages: list[str] = []
    room = MAX_TEXT_BYTES
    for page in reader.pages:
        text = squeezed(page.extract_text().strip())
        room -= len(text.encode("utf-8", "surrogatepass")) + 2
        if room < 0:
            raise too_long()
        if text:
            pages.append(text)
    if not pages:
        raise unreadable(
            "the PDF has no text, perhaps only images; recognise its text with another program (OCR), and upload that"
        )
    return "\n\n".join(pages)
