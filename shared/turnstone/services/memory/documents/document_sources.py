"""Texts of documents: as sent, from `data:` URLs, or from addresses within one limit of time and size."""

from __future__ import annotations

import binascii
import codecs
from base64 import b64decode
from collections.abc import Callable, Sequence
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from turnstone.domain.errors import FetchFailed, InvalidRequest, Unsupported
from turnstone.domain.memory.documents import PLAIN_TEXT, GivenDocument, SourceBody, TextDocument

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
ACCEPTED = f"text/*, {', '.join(TEXT_TYPES)}"
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "windows-1252", "utf-16", "utf-16le", "utf-16be")  # of a `data:` URL
LONGEST_SHOWN = 100

Fetch = Callable[[str, float, int], SourceBody]
Reader = Callable[[SourceBody], str]


class NotText(Exception):
    """Content that cannot be read as text; the message gives the reason."""


def text_in(source: SourceBody) -> str:
    """Return the content as a text. Raises NotText for other types, and for bytes that are no text."""
    if not is_text(source.mime_type):
        raise NotText(f"this server reads documents of the types {ACCEPTED}, not {source.mime_type[:LONGEST_SHOWN]!r}")
    marked = next((charset for mark, charset in MARKS if source.body.startswith(mark)), None)
    try:
        return source.body.decode(marked or source.charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        raise NotText(f"it is no text in {source.charset or 'UTF-8'}") from None


def is_text(mime_type: str) -> bool:
    """Return whether documents of this type are read as they are."""
    media_type = mime_type.partition(";")[0].strip().lower()
    return media_type.startswith("text/") or media_type in TEXT_TYPES or media_type.endswith(("+json", "+xml"))


class DocumentSources:
    def __init__(self, fetch: Fetch, monotonic_s: Callable[[], float], read: Reader = text_in) -> None:
        """Fetch by address, seconds and bytes, which raises FetchFailed; `read` returns the text of fetched content."""
        self._fetch = fetch
        self._monotonic_s = monotonic_s
        self._read = read

    def read(self, given: Sequence[TextDocument]) -> list[GivenDocument]:
        """Return the documents with their texts.

        Raises:
            Unsupported: a document of a type, or at an address of a scheme, that this server does not read.
            InvalidRequest: an address is forbidden or has no text, or the texts take too long or are too large.
        """
        ends_at, left_bytes = self._monotonic_s() + FETCHED_S, FETCHED_BYTES
        found = []
        for number, document in enumerate(given):
            new, text, address = document
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
                source = source._replace(mime_type=new.mime_type or source.mime_type or PLAIN_TEXT)
                new, text = new._replace(mime_type=source.mime_type), self._text(source, number)
            complete = TextDocument(new._replace(size_bytes=size_bytes), text)
            found.append(GivenDocument(number, complete, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()))
        return found

    def _source(self, address: str, number: int, ends_at: float, most_bytes: int) -> SourceBody:
        scheme = address.partition(":")[0].lower()
        if scheme == "data":
            return _decoded(address, number)
        if scheme not in FETCHED:
            problem = f"a document is fetched from an https address, not from one of {scheme[:LONGEST_SHOWN]!r}"
            raise Unsupported(f"documents.{number}.content: {problem}", ("documents", number, "content"))
        left_s = ends_at - self._monotonic_s()
        if left_s <= 0 or most_bytes <= 0:
            limits = f"{FETCHED_S:g} s and {FETCHED_BYTES} bytes"
            raise _wrong(number, f"the documents of a request are fetched within {limits} in all")
        try:
            return self._fetch(address, left_s, most_bytes)
        except FetchFailed as problem:
            raise _wrong(number, str(problem)) from problem

    def _text(self, source: SourceBody, number: int) -> str:
        try:
            return self._read(source)
        except NotText as problem:
            raise _wrong(number, str(problem)) from None


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
