"""Texts of documents: as sent, or read from `data:` URLs and from addresses, within one limit of time and size."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Sequence
from hashlib import sha256
from io import BytesIO
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from turnstone.domain.errors import FetchFailed, InvalidRequest, ReadingUnavailable, Unsupported
from turnstone.domain.memory.documents import GivenDocument, SourceBody, TextDocument
from turnstone.domain.memory.texts.extraction import PDF, WORD, DocumentFile, Extracted, ExtractionFailed

FETCHED_S = 20.0  # for all documents of a request
FETCHED_BYTES = 8 * 1024 * 1024
FETCHED = ("http", "https")
TEXT_TYPES = (
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
)
ACCEPTED = f"text/*, {', '.join((*TEXT_TYPES, PDF, WORD))}"
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "windows-1252", "utf-16", "utf-16le", "utf-16be")  # of a `data:` URL
LONGEST_SHOWN = 100

Fetch = Callable[[str, float, int], SourceBody]
Extract = Callable[[DocumentFile], Extracted]


def is_text(mime_type: str) -> bool:
    """Return whether a document of this type that a request sends as text is kept as it is."""
    media_type = mime_type.partition(";")[0].strip().lower()
    return media_type.startswith("text/") or media_type in TEXT_TYPES or media_type.endswith(("+json", "+xml"))


class DocumentSources:
    def __init__(self, fetch: Fetch, extract: Extract, monotonic_s: Callable[[], float]) -> None:
        """Fetch by address, seconds and bytes, which raises FetchFailed; extract the text of fetched content."""
        self._fetch = fetch
        self._extract = extract
        self._monotonic_s = monotonic_s

    def read(self, given: Sequence[TextDocument]) -> list[GivenDocument]:
        """Return the documents with their texts.

        Raises:
            Unsupported: a document of a type, or at an address of a scheme, that this server does not read.
            InvalidRequest: an address is forbidden or has no text, or the texts take too long or are too large.
            ReadingUnavailable: this server can't read a document now.
        """
        ends_at, left_bytes = self._monotonic_s() + FETCHED_S, FETCHED_BYTES
        found = []
        for number, document in enumerate(given):
            new, text, address, has_headings = document
            if address is None:
                if not is_text(new.mime_type):
                    location = ("documents", number, "mime_type")
                    problem = f"this server reads documents of the types {ACCEPTED}"
                    raise Unsupported(f"documents.{number}.mime_type: {problem}", location)
                size_bytes = len(text.encode("utf-8", "surrogatepass"))
            else:
                source = self._source(address, number, ends_at, left_bytes)
                size_bytes = len(source.body)
                left_bytes -= size_bytes
                text, has_headings, mime_type = self._extracted(source, new.mime_type, address, number)
                new = new._replace(mime_type=mime_type)
            complete = TextDocument(new._replace(size_bytes=size_bytes), text, has_headings=has_headings)
            found.append(GivenDocument(number, complete, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()))
        return found

    def _source(self, address: str, number: int, ends_at: float, most_bytes: int) -> SourceBody:
        scheme = address.partition(":")[0].lower()
        if scheme not in ("data", *FETCHED):
            problem = f"a document is fetched from an https address, not from one of {scheme[:LONGEST_SHOWN]!r}"
            raise Unsupported(f"documents.{number}.content: {problem}", ("documents", number, "content"))
        left_s = ends_at - self._monotonic_s()
        if left_s <= 0 or most_bytes <= 0:
            limits = f"{FETCHED_S:g} s and {FETCHED_BYTES} bytes"
            raise _wrong(number, f"the documents of a request are fetched and read within {limits} in all")
        if scheme == "data":
            return _decoded(address, number)
        try:
            return self._fetch(address, left_s, most_bytes)
        except FetchFailed as problem:
            raise _wrong(number, str(problem)) from problem

    def _extracted(self, source: SourceBody, declared: str, address: str, number: int) -> Extracted:
        """Return the text of the content. The type is that of the request, else that of the source."""
        mime_type = declared or source.mime_type
        if source.charset is not None and "charset=" not in mime_type.lower():
            mime_type = f"{mime_type}; charset={source.charset}"
        name = "" if address[:5].lower() == "data:" else unquote(urlsplit(address).path)
        try:
            return self._extract(DocumentFile(BytesIO(source.body), name, mime_type))
        except ExtractionFailed as problem:
            if problem.code == "server_error":
                raise ReadingUnavailable(str(problem)) from problem
            raise _wrong(number, str(problem)) from problem


def _decoded(address: str, number: int) -> SourceBody:
    head, comma, encoded = address.partition(":")[2].partition(",")
    media_type, *parameters = head.split(";")
    given = (each.partition("=")[2].strip().lower() for each in parameters if each.lower().startswith("charset="))
    charset = next(given, None)
    if charset not in (None, *CHARSETS):
        raise _wrong(number, f"the charset of a data URL is one of {', '.join(CHARSETS)}")
    try:
        if not comma:
            raise ValueError
        body = unquote_to_bytes(encoded)
        if parameters and parameters[-1].strip().lower() == "base64":
            body = b64decode(body, validate=True)
    except (ValueError, binascii.Error):
        raise _wrong(number, "this is no data URL") from None
    return SourceBody(body, media_type.strip().lower(), charset)


def _wrong(number: int, why: str) -> InvalidRequest:
    return InvalidRequest(f"documents.{number}.content: {why}", ("documents", number, "content"))
