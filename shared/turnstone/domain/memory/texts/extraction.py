"""Texts of documents as files, for memory banks and for turns."""

from __future__ import annotations

import re
from typing import IO, Literal, NamedTuple

# of the text of one document: about four million tokens
MAX_TEXT_BYTES = 16 * 1024 * 1024
PDF = "application/pdf"
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
# types whose content is no text, so that a request sends it in base64
BINARY_TYPES = (PDF, "application/x-pdf", WORD)
ADDRESSES = ("data:", "http://", "https://")
ONE_ADDRESS = re.compile(r"https?://[^\s/]\S*|data:[\w.+-]+/[\w.+-]+(?:;[^,;\s]+)*,.*", re.IGNORECASE | re.DOTALL)

# Source: `last_error.code` of files of vector stores in the OpenAI API.
ProblemCode = Literal["unsupported_file", "invalid_file", "server_error"]


class DocumentFile(NamedTuple):
    """A document to read.

    Attributes:
        file: its bytes, from any position; it can be positioned, and stays open.
        name: the name of the file, which may be empty.
        mime_type: as declared, with its parameters; empty if it is not declared.
    """

    file: IO[bytes]
    name: str = ""
    mime_type: str = ""


class Extracted(NamedTuple):
    """The text of a document: lines that end with a line feed, of at most `MAX_TEXT_BYTES` as UTF-8.

    Attributes:
        has_headings: whether lines that begin with `#` are headings, as in Markdown.
        mime_type: of the document, recognised.
    """

    text: str
    has_headings: bool
    mime_type: str


class ExtractionFailed(Exception):
    """A document has no text that can be read; the message, for its owner, states the reason and the remedy."""

    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.code: ProblemCode = code


def unreadable(message: str) -> ExtractionFailed:
    """Return the failure of a document whose content can't be read."""
    return ExtractionFailed("invalid_file", message)


def too_long() -> ExtractionFailed:
    """Return the failure of a document with more text than `MAX_TEXT_BYTES`."""
    return unreadable(f"the document has more than {MAX_TEXT_BYTES // 1024 // 1024} MiB of text; divide it")


def is_binary(mime_type: str) -> bool:
    """Return whether a request sends documents of this type in base64."""
    return mime_type.partition(";")[0].strip().lower() in BINARY_TYPES


def address_in(text: str) -> str | None:
    """Return the URL that is the whole text, None for any other text."""
    found = text.strip()
    return found if ONE_ADDRESS.fullmatch(found) else None


def address_of(content: str, mime_type: str) -> str:
    """Return the URL of the content of a binary type: the content itself if it is one, else it is base64."""
    if content.lstrip()[:8].lower().startswith(ADDRESSES):
        return content.strip()
    return f"data:{mime_type.partition(';')[0].strip().lower()};base64,{''.join(content.split())}"
