"""Reading a form of any size: in batches, by a thread of the route, with its file in a temporary file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.errors import BodyTooLarge, InvalidRequest, StoreUnavailable
from turnstone.http.forms import SentFile, SentForm
from turnstone.http.request import InvalidBody
from turnstone.http.server import LATE_MODULE
from turnstone.http.server.bodies import IncomingBody

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartParser

BATCH_BYTES = 256 * 1024
IN_MEMORY_BYTES = 1024 * 1024
MOST_FIELDS = 16
MOST_FIELD_BYTES = 4_096
MOST_BOUNDARIES = 64  # also those that end no part: each takes the parser as long as a hundred other bytes
AROUND_FILE_BYTES = 64 * 1024  # of boundaries, headers and other fields
PLAIN_ENCODINGS = (b"", b"binary", b"8bit", b"7bit")
NOT_A_FORM = "the body must be multipart/form-data, and the header Content-Type must have its boundary"
REFUSALS = (BodyTooLarge, InvalidBody, InvalidRequest, StoreUnavailable)
_LOADING = Lock()
Do = Callable[..., Awaitable[Any]]


class FormRule(NamedTuple):
    """The form that a route takes.

    Attributes:
        field: the name of the file's field.
        most_bytes: the limit of the file.
        setting: the variable that sets the limit; empty for a fixed one.
    """

    field: str
    most_bytes: int
    setting: str


async def read_form(body: IncomingBody, rule: FormRule, do: Do) -> SentForm:
    """Return the request's form, which the caller has to close; `do` calls a function in a thread.

    A body is refused as soon as that is certain; the rest of it is left to receive.

    Raises:
        InvalidRequest, InvalidBody: it is no form, or not the route's.
        BodyTooLarge: the file is too large.
        StoreUnavailable: the temporary file can't be written.
        ClientDisconnect: the client disconnected before the body was complete.
    """
    reader = FormReader(rule)
    try:
        return await _read(body, reader, do)
    except BaseException:
        reader.close()
        raise


async def _read(body: IncomingBody, reader: FormReader, do: Do) -> SentForm:
    await do(reader.begin, body.headers.get("content-type", ""))
    batch = bytearray()
    while body.has_more:
        if body.size_bytes > reader.most_bytes:
            raise reader.too_large
        batch += await body.part()
        if body.size_bytes > reader.most_bytes:
            raise reader.too_large
        if len(batch) >= BATCH_BYTES or not body.has_more:
            await do(reader.feed, bytes(batch))
            batch.clear()
    form: SentForm = await do(reader.form)
    return form


class FormReader:
    """Takes the body of a form in pieces. Methods are called one after the other, in any thread."""

    def __init__(self, rule: FormRule) -> None:
        self._rule = rule
        self._file = _FilePart(rule)
        self._fields: dict[str, str] = {}
        self._part: _FilePart | _TextPart | None = None
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value = bytearray(), bytearray()
        self._parts = 0
        self._boundaries = 0
        self._is_whole = False

    @property
    def most_bytes(self) -> int:
        """Bytes that the body may have."""
        return self._rule.most_bytes + AROUND_FILE_BYTES

    @property
    def too_large(self) -> BodyTooLarge:
        """The error for a body that is too large."""
        return BodyTooLarge(self._rule.most_bytes, self._rule.setting)

    def begin(self, content_type: str) -> None:
        """Prepare for a body of this content type. Raises InvalidRequest."""
        self._multipart = load_parser()
        kind, options = self._multipart.parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise InvalidRequest(NOT_A_FORM)
        calls: Any = {
            "on_part_begin": self._begin_part,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open_part,
            "on_part_data": lambda data, start, end: self._part and self._part.add(memoryview(data)[start:end]),
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        self._delimiter = b"\r\n--" + boundary
        try:
            self._parser: MultipartParser = self._multipart.MultipartParser(boundary, calls)
        except ValueError as invalid:
            raise InvalidRequest(f"Content-Type: {invalid}") from invalid

    def feed(self, data: bytes) -> None:
        """Take a piece of the body. Raises InvalidRequest, BodyTooLarge, StoreUnavailable."""
        self._boundaries += data.count(self._delimiter)
        if self._boundaries > MOST_BOUNDARIES:
            problem = f"more than {MOST_BOUNDARIES} lines of the body begin with the boundary of its Content-Type"
            raise InvalidRequest(f"{problem}; choose one that the file does not contain")
        try:
            self._parser.write(data)
        except self._multipart.FormParserError as invalid:
            raise InvalidRequest(f"the body is not valid multipart/form-data: {invalid}") from invalid

    def form(self) -> SentForm:
        """Return the whole form. Raises InvalidRequest, InvalidBody if the file is missing."""
        if not self._is_whole:
            raise InvalidRequest("the body ends before its last boundary")
        if not self._file.is_sent:
            raise InvalidBody([{"loc": (self._rule.field,), "msg": "Field required", "type": "missing"}])
        file = self._file.sent
        pairs = [text.encode("utf-8", "surrogatepass") for pair in sorted(self._fields.items()) for text in pair]
        around = (*pairs, repr(file.name).encode(), file.media_type.encode(), self._file.digest.digest())
        return SentForm(self._fields, file, _digest_of(around))

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MOST_FIELDS:
            raise InvalidRequest(f"the body has more than {MOST_FIELDS} fields")
        self._headers = {}

    def _end_header(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _open_part(self) -> None:
        disposition, options = self._multipart.parse_options_header(self._headers.get(b"content-disposition"))
        if disposition != b"form-data" or b"name" not in options:
            raise InvalidRequest("a part of the body has no Content-Disposition of form-data with a name")
        name = _text(options[b"name"], "the name of a part of the body", ())
        if self._headers.get(b"content-transfer-encoding", b"").lower() not in PLAIN_ENCODINGS:
            raise InvalidRequest(f"{name}: must be sent without a Content-Transfer-Encoding", (name,))
        if name in self._fields or (name == self._rule.field and self._file.is_sent):
            raise InvalidRequest(f"{name}: must be sent once", (name,))
        if name == self._rule.field:
            filename = options.get(b"filename")
            text = None if filename is None else _text(filename, f"{name}: its file name", (name,))
            media_type = _text(self._headers.get(b"content-type", b""), f"{name}: its Content-Type", (name,))
            self._file.open(text, media_type)
            self._part = self._file
        else:
            self._part = _TextPart(name)

    def _end_part(self) -> None:
        if isinstance(self._part, _TextPart):
            self._fields[self._part.name] = _text(bytes(self._part.value), self._part.name, (self._part.name,))
        self._part = None

    def _end(self) -> None:
        self._is_whole = True


class _TextPart:
    def __init__(self, name: str) -> None:
        self.name = name
        self.value = bytearray()

    def add(self, data: memoryview) -> None:
        if len(self.value) + len(data) > MOST_FIELD_BYTES:
            raise InvalidRequest(f"{self.name}: must have at most {MOST_FIELD_BYTES} bytes", (self.name,))
        self.value += data


class _FilePart:
    def __init__(self, rule: FormRule) -> None:
        self._rule = rule
        self._content: SpooledTemporaryFile[bytes] | None = None
        self._name: str | None = None
        self._media_type = ""
        self._size_bytes = 0
        self.digest = blake2b(digest_size=32)

    @property
    def is_sent(self) -> bool:
        return self._content is not None

    @property
    def sent(self) -> SentFile:
        if self._content is None:
            raise LookupError("no file was sent")
        return SentFile(self._name, self._media_type, self._size_bytes, self._content)

    def open(self, name: str | None, media_type: str) -> None:
        self._name, self._media_type = name, media_type
        self._content = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115 - closed with the form

    def add(self, data: memoryview) -> None:
        self._size_bytes += len(data)
        if self._size_bytes > self._rule.most_bytes:
            raise BodyTooLarge(self._rule.most_bytes, self._rule.setting)
        try:
            self.sent.content.write(data)
        except OSError as problem:
            raise StoreUnavailable(f"a temporary file can't be written: {problem.strerror}") from problem
        self.digest.update(data)

    def close(self) -> None:
        if self._content is not None:
            with suppress(OSError):  # of data that could not be written, and is not needed
                self._content.close()


def load_parser() -> Any:
    """Return the module of python-multipart, which the first form loads."""
    with _LOADING:
        if sys.modules.get(LATE_MODULE, LATE_MODULE) is None:
            del sys.modules[LATE_MODULE]
        from python_multipart import multipart

        logging.getLogger(LATE_MODULE).setLevel(logging.CRITICAL)  # it writes a line for each invalid body
    return multipart


def _text(data: bytes, about: str, location: tuple[str, ...]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{about}: must be UTF-8", location) from None


def _digest_of(pieces: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=32)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8))
        digest.update(piece)
    return digest.digest()
