"""HTTP exchanges with one server over kept connections.

urllib3 opens the connections, httptools parses the responses. Its own exchanges, by `http.client`, take eight times the
processor time, because Python parses each header and each chunk.
"""

from __future__ import annotations

import ssl
import weakref
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import SSLError
from urllib3.util import Url
from urllib3.util.ssl_match_hostname import CertificateError

from turnstone.adapters.outgoing.connections import SEND_TIMEOUT_S, Line

READ_BYTES = 64 * 1024
MOST_FRAMING_BYTES = 256 * 1024  # of a head or a trailer, which the parser copies again with each read
MOST_BYTES = 128 * 1024 * 1024  # of a response with its framing, which a reader of the body alone cannot limit
JOINED_BYTES = 64 * 1024  # a larger body is sent by itself rather than copied behind its head
# Longest wait for the end of a response after the end of its answer, to keep the connection.
SETTLE_S = 0.1
SETTLE_READS = 4
COMPRESSED = ("gzip", "x-gzip", "deflate")


class ExchangeFailed(Exception):
    """The server closed the connection before the end of its response, or violated HTTP.

    Attributes:
        was_silent: whether it sent nothing, so that a kept connection may have been closed before the request.
    """

    def __init__(self, reason: str, *, was_silent: bool = False) -> None:
        super().__init__(reason)
        self.was_silent = was_silent


class Exchanges:
    """The connections to one server. A connection is used by one exchange at a time."""

    def __init__(self, url: Url, most_kept: int, connect_timeout_s: float) -> None:
        """Keep up to so many idle connections to the URL's server; open none yet."""
        self._is_tls = url.scheme == "https"
        self._host = (url.host or "").strip("[]")
        self._port = url.port or (443 if self._is_tls else 80)
        self._host_field = url.host if url.port in (None, 443 if self._is_tls else 80) else f"{url.host}:{url.port}"
        self._connect_timeout_s = connect_timeout_s
        self._most_kept = most_kept
        self._idle: deque[HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def begin(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], line: Line, timeout_s: float
    ) -> Response:
        """Send a request and return its response, whose body is unread. The caller has to `settle` it.

        Raises:
            HTTPError: urllib3's error; the connection cannot be opened.
            TimeoutError: the server sent no head in time.
            ExchangeFailed: the connection ended before the head, or the head is invalid.
        """
        sent = self._head(method, path, body, headers)
        connection = self._connected()
        try:
            sock = connection.sock
            sock.settimeout(SEND_TIMEOUT_S)
            line.hold(sock)
            with suppress(BrokenPipeError, ConnectionResetError):  # a server may answer before it has read everything
                if body is None or len(body) <= JOINED_BYTES:
                    sock.sendall(sent + (body or b""))
                else:
                    sock.sendall(sent)
                    sock.sendall(body)
            sock.settimeout(timeout_s)
            response = Response(connection, self, line)
            response.read_head()
        except TimeoutError:
            connection.close()
            raise
        except OSError as exc:
            connection.close()
            raise ExchangeFailed(f"the connection failed: {exc}") from exc
        except BaseException:
            connection.close()
            raise
        return response

    def keep(self, connection: HTTPConnection) -> None:
        """Keep an idle connection for a later exchange."""
        if len(self._idle) < self._most_kept:
            self._idle.append(connection)
        else:
            connection.close()

    def _connected(self) -> HTTPConnection:
        """Return a kept connection that the server has not closed, else a new one."""
        while self._idle:
            try:
                kept = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if kept.is_connected:
                return kept
            kept.close()
        kind = HTTPSConnection if self._is_tls else HTTPConnection
        connection = kind(self._host, self._port, timeout=self._connect_timeout_s)
        try:
            connection.connect()
        except (ssl.SSLError, CertificateError) as exc:
            connection.close()
            raise SSLError(exc) from exc
        except OSError as exc:
            connection.close()
            if isinstance(exc, TimeoutError):
                raise
            raise ExchangeFailed(f"the connection failed: {exc}", was_silent=isinstance(exc, ConnectionError)) from exc
        except BaseException:
            connection.close()
            raise
        return connection

    def _head(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host_field}", "Accept-Encoding: identity"]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(lines)
        if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1:
            raise ValueError("a line feed within a header")
        return head.encode("latin-1") + b"\r\n\r\n"


class Response:
    """A response whose body arrives.

    Attributes:
        status: of its head.
        headers: by name in lower case; of several with the same name the first.
    """

    def __init__(self, connection: HTTPConnection, kept_by: Exchanges, line: Line) -> None:
        self._connection = connection
        self._line = line
        self._is_settled = False
        self._sock = connection.sock
        self._kept_by = kept_by
        self._parsed = _Parsed()
        self._read_bytes = 0
        self._framing_bytes = 0  # read since the last piece of the body
        self._inflater: zlib._Decompress | None = None
        self._invalid: ExchangeFailed | None = None  # raised after the body that came before it
        self.status = 0
        self.headers: dict[str, str] = {}

    def read_head(self) -> None:
        """Read up to the end of the head. Raises TimeoutError and ExchangeFailed."""
        while not self._parsed.has_head:
            self._read()
        self.status = self._parsed.status
        self.headers = self._parsed.headers
        if self.headers.get("content-encoding", "").lower() in COMPRESSED:  # although none was offered
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises TimeoutError and ExchangeFailed."""
        while True:
            if self._parsed.body:
                yield self._taken()
            if self._parsed.is_whole:
                return
            if self._invalid is not None:
                raise self._invalid
            self._read()

    def start(self, most_bytes: int) -> bytes:
        """Return the body's start. Raises TimeoutError and ExchangeFailed."""
        start = b""
        for piece in self.pieces():
            start += piece
            if len(start) >= most_bytes:
                break
        return start[:most_bytes]

    def settle(self, *, is_over: bool) -> None:
        """Keep the connection if the response ends, else close it; if the answer `is_over`, after a short wait.

        Only the first call has an effect: a kept connection belongs to the exchange after it.
        """
        if self._is_settled:
            return
        self._is_settled = True
        if is_over and not self._parsed.is_whole:
            with suppress(ExchangeFailed, OSError):
                self._sock.settimeout(SETTLE_S)
                for _ in range(SETTLE_READS):
                    if self._parsed.is_whole or self._invalid is not None:
                        break
                    self._read()
        if self._parsed.may_be_kept and self._line.release():
            self._kept_by.keep(self._connection)
        else:
            self._connection.close()

    def _read(self) -> None:
        """Parse the next bytes."""
        try:
            received = self._sock.recv(READ_BYTES)
        except TimeoutError:
            raise
        except OSError as exc:
            is_silent = isinstance(exc, ConnectionError) and not self._parsed.has_head
            raise ExchangeFailed(f"the connection failed: {exc}", was_silent=is_silent) from exc
        if not received:
            if not self._parsed.is_whole_at_end:
                raise ExchangeFailed("the connection was closed", was_silent=not self._read_bytes)
            self._parsed.is_whole = True
            return
        self._read_bytes += len(received)
        if self._read_bytes > MOST_BYTES:
            raise ExchangeFailed("the response is too large")
        try:
            self._parsed.parser.feed_data(received)
        except HttpParserUpgrade as exc:
            raise ExchangeFailed("the server switched to another protocol") from exc
        except HttpParserError as exc:
            failed = ExchangeFailed(f"the response is not HTTP: {exc}")
            if not self._parsed.has_head:
                raise failed from exc
            self._parsed.may_be_kept = False  # bytes after the response cost no more than the connection
            self._invalid = None if self._parsed.is_whole else failed
        self._framing_bytes = 0 if self._parsed.body else self._framing_bytes + len(received)
        if self._framing_bytes > MOST_FRAMING_BYTES and not self._parsed.is_whole:
            raise ExchangeFailed("the framing of the response is too large")

    def _taken(self) -> bytes:
        body = self._parsed.body
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        if self._inflater is None:
            return taken
        if self._inflater.eof:  # it would copy all surplus bytes with each call
            return b""
        try:
            return self._inflater.decompress(taken)
        except zlib.error as exc:
            raise ExchangeFailed(f"the body cannot be decompressed: {exc}") from exc


class _Parsed:
    """The callbacks of the parser, and the parsed response.

    Attributes:
        body: the pieces that were not taken yet.
        is_whole: whether the response is complete.
        may_be_kept: whether it is complete and another may follow on its connection.
    """

    def __init__(self) -> None:
        self.parser = parser = HttpResponseParser(self)
        # what http.client accepts, too: lines without CR, both framings of a body, folded headers
        parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_chunked_length=True, lenient_headers=True
        )
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.has_head = False
        self.is_whole = False
        self.may_be_kept = False

    @property
    def is_whole_at_end(self) -> bool:
        """Whether the end of the connection ends the body."""
        is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return self.is_whole or (self.has_head and not is_chunked and "content-length" not in self.headers)

    def on_message_begin(self) -> None:
        if self.is_whole:
            self.may_be_kept = False  # bytes beyond the response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # else it is one of a trailer
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())

    def on_headers_complete(self) -> None:
        if self.is_whole:
            return
        status = self.parser.get_status_code()
        if 100 <= status < 200:
            self.headers = {}  # of a response before the response
            return
        self.status = status
        self.has_head = True

    def on_body(self, piece: bytes) -> None:
        if not self.is_whole:
            self.body.append(piece)

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_whole:
            self.is_whole = True
            self.may_be_kept = self.parser.should_keep_alive()


def _close_all(idle: deque[HTTPConnection]) -> None:
    while idle:
        idle.pop().close()
