"""Types of documents: by the declared media type, or the file's name where none is declared; the first bytes decide.

A PDF, a DOCX and a page of HTML are read as such under any name, because names are often wrong.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from turnstone.domain.memory.texts.extraction import BINARY_TYPES, PDF, WORD, ExtractionFailed, unreadable

FIRST_BYTES = 1024
LONGEST_SHOWN = 100


class DocumentKind(StrEnum):
    """The ways to read a document."""

    TEXT = "text"
    MARKDOWN = "markdown"
    TABLE = "table"
    HTML = "html"
    WORD = "word"
    PDF = "pdf"


class DocumentType(NamedTuple):
    """A type of documents that can be read."""

    kind: DocumentKind
    mime_type: str


TEXT = DocumentType(DocumentKind.TEXT, "text/plain")
# the first media type of a kind is its own, the others are names of the same
KINDS = {
    DocumentKind.MARKDOWN: ("text/markdown", "text/x-markdown"),
    DocumentKind.TABLE: ("text/csv", "application/csv", "text/x-csv"),
    DocumentKind.HTML: ("text/html", "application/xhtml+xml"),
    DocumentKind.WORD: (WORD,),
    DocumentKind.PDF: tuple(name for name in BINARY_TYPES if name != WORD),
}
TAB_SEPARATED = DocumentType(DocumentKind.TABLE, "text/tab-separated-values")
TYPES = {mime_type: DocumentType(kind, names[0]) for kind, names in KINDS.items() for mime_type in names} | {
    TAB_SEPARATED.mime_type: TAB_SEPARATED
}
TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in (
        *("json", "jsonl", "json5", "ld+json", "x-ndjson", "x-jsonlines", "xml", "yaml", "x-yaml", "toml", "x-toml"),
        *("sql", "x-sql", "graphql", "javascript", "x-javascript", "typescript", "x-typescript", "x-python", "x-ruby"),
        *("x-python-code", "x-php", "x-httpd-php", "x-sh", "x-csh", "x-shellscript", "x-tex", "x-latex", "x-subrip"),
    )
)
NOT_TEXT = ("text/rtf", "text/richtext", "text/x-rtf")
# types that clients send when they have none
UNDECLARED = ("", "application/octet-stream", "binary/octet-stream", "application/x-www-form-urlencoded", "*/*")
OF_TABLES = "application/vnd.ms-excel"  # Windows also sends it for CSV
NAMES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".mdx": "text/markdown",
    ".csv": "text/csv",
    ".tsv": TAB_SEPARATED.mime_type,
    ".tab": TAB_SEPARATED.mime_type,
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".docx": WORD,
    ".pdf": PDF,
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/x-ndjson",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".xml": "application/xml",
    ".toml": "application/toml",
} | {
    f".{name}": "text/plain"
    for name in (
        *("txt", "text", "log", "rst", "adoc", "tex", "srt", "vtt", "ini", "cfg", "conf", "c", "h", "cpp", "hpp", "cs"),
        *("css", "go", "java", "js", "jsx", "kt", "lua", "php", "pl", "py", "r", "rb", "rs", "scala", "sh", "sql"),
        *("swift", "ts", "tsx"),
    )
}
READABLE = "plain text, Markdown, HTML, CSV, JSON, YAML, XML, PDF and DOCX"
PLAIN_NAMES = (".txt", ".text")
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ZIP = b"PK\x03\x04"
_PDF = re.compile(rb"%PDF-\d")
_HTML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)


def type_of(mime_type: str, name: str, beginning: bytes) -> DocumentType:
    """Return the type of a document. Raises ExtractionFailed if it is none that can be read, or none of that type.

    Args:
        beginning: the first bytes, `FIRST_BYTES` of them if there are so many.
    """
    declared = mime_type.partition(";")[0].strip().lower()
    found = _by_media_type(declared)
    if found is None and declared in (*UNDECLARED, OF_TABLES):
        found = _by_name(name)
    if found is None and declared not in UNDECLARED:
        raise _unsupported(f"{declared[:LONGEST_SHOWN]!r}")
    return _by_content(beginning) if found is None else _agreeing(found, name, beginning)


def charset_of(mime_type: str) -> str | None:
    """Return the charset that a media type declares, in lower case; None for none."""
    found = re.search(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|([^\s;]+))", mime_type, re.IGNORECASE)
    return (found[1] or found[2] or "").strip().lower() or None if found else None


def _by_media_type(declared: str) -> DocumentType | None:
    if declared in TYPES:
        return TYPES[declared]
    is_text = declared.startswith("text/") and declared not in NOT_TEXT
    if is_text or declared in TEXT_TYPES or declared.endswith(("+json", "+xml", "+yaml")):
        return DocumentType(DocumentKind.TEXT, declared)
    return None


def _by_name(name: str) -> DocumentType | None:
    last = re.split(r"[/\\]", name)[-1].lower()
    mime_type = NAMES.get(f".{last.rpartition('.')[2]}") if "." in last else None
    return None if mime_type is None else _by_media_type(mime_type)


def _agreeing(named: DocumentType, name: str, beginning: bytes) -> DocumentType:
    """Return this type, or that of the content. Raises ExtractionFailed if the content is of none that can be read."""
    if beginning.startswith(ZIP):
        return TYPES[WORD]
    if beginning.startswith(OLD_OFFICE):
        raise old_office()
    if _PDF.match(beginning.lstrip()):
        return TYPES[PDF]
    match named.kind:
        case DocumentKind.PDF if not _PDF.search(beginning):
            raise _mismatch("a PDF", "%PDF-")
        case DocumentKind.WORD:
            raise _mismatch("a DOCX", "PK")
        case DocumentKind.MARKDOWN | DocumentKind.TEXT if _is_page(named, name) and _HTML.match(beginning):
            return TYPES["text/html"]
    return named


def _is_page(named: DocumentType, name: str) -> bool:
    """Return whether HTML of this type and name is a page, and not the source of one."""
    return named.kind is DocumentKind.MARKDOWN or name.lower().endswith(PLAIN_NAMES)


def _mismatch(shown: str, beginning: str) -> ExtractionFailed:
    return unreadable(
        f"by its type or name the document is {shown}, but its content is not, it does not begin with {beginning}; "
        "upload it under the name and the type of its content"
    )


def _by_content(beginning: bytes) -> DocumentType:
    if _PDF.search(beginning):
        return TYPES[PDF]
    if beginning.startswith(ZIP):
        return TYPES[WORD]
    if beginning.startswith(OLD_OFFICE):
        raise old_office()
    if beginning.startswith(b"{\\rtf"):
        raise _unsupported("RTF")
    if _HTML.match(beginning):
        return TYPES["text/html"]
    if b"\0" in beginning and not beginning.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        raise ExtractionFailed(
            "unsupported_file", f"the document's type is not recognised; this server reads {READABLE}: declare its type"
        )
    return TEXT


def old_office() -> ExtractionFailed:
    """Return the failure of an Office document in its old form, in which Office also stores encrypted ones."""
    return unreadable(
        "the document is encrypted, or of an Office version before 2007; save it as .docx without a password"
    )


def _unsupported(shown: str) -> ExtractionFailed:
    return ExtractionFailed(
        "unsupported_file", f"documents of the type {shown} can't be read; this server reads {READABLE}: convert it"
    )
