"""HTTP/1.1 without upgrades, with limits of heads and trailers, of time, and of pipelined requests."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httptools
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.dialects import SHARED
from turnstone.http.errors import refusal_reply

from .connections import Connections, Phase
from .http_limits import CHUNK_LINE_BYTES, MessageMeter

PIECE_BYTES = 16_384  # parsed at once: the fields of an unfinished head are counted between two pieces
MAX_AHEAD = 100  # pipelined requests of a connection
MAX_DISCARDED_BYTES = (
    8_000_000  # read after a refusal, so that a client that sends first and reads later gets the response
)
INVALID = "this is not a valid HTTP request"
NO_TUNNEL = "this server is no proxy: CONNECT is not supported"
TOO_FAR_AHEAD = (
    f"more than {MAX_AHEAD} requests of one connection await their answers; read answers before you send more"
)
TOO_SLOW = "the request did not arrive in time"
TOO_MANY = "the server has no room for another connection, try again shortly"
log = logging.getLogger(__name__)


class _Refused(Exception):
    """Stops the parser. Arguments: code and message of the response."""


class HttpOnly(HttpToolsProtocol):
    """uvicorn's fast protocol with limits; a request that offers an upgrade is parsed like any other.

    A refusal is sent after the responses to the requests before it; then the connection ends.
    """

    def __init__(
        self,
        supervised: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.phase: Phase = {}
        self._supervised = supervised
        self._limits = supervised.limits
        self._meter = MessageMeter(self._limits.head_bytes)
        self._quick_bytes = min(PIECE_BYTES, self._limits.head_bytes)
        self._is_in_body = False
        self._received_bytes = 0
        self._has_paused = False
        self._refusal: bytes | None = None
        self._answering: RequestResponseCycle | None = None

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._supervised.admit(self):
            self._refusal = self._last_response(ErrorCode.TOO_MANY_CONNECTIONS, TOO_MANY)
            transport.write(self._refusal)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._supervised.leave(self)
        if isinstance(
            exc, TimeoutError
        ):  # the system's own limit, which may pass before the next check of `SlowReaders`
            log.info("a connection ended: its client read none of the response for %g s", self._limits.unread_s)
        # uvicorn marks the newest request only, which is still queued if requests are pipelined
        for cycle in (self._answering, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def is_sending(self) -> bool:
        return self.transport.get_write_buffer_size() > 0

    def check_pace(self) -> bool:
        # a period does not count while the server does not read, or has not requested the body yet
        is_excused = self._has_paused or self.flow.read_paused or self.cycle.waiting_for_100_continue
        has_kept_pace = is_excused or self._received_bytes >= self._limits.body_bytes_per_period
        self._received_bytes = 0
        self._has_paused = False
        return has_kept_pace

    def time_out(self) -> None:
        if self._refusal is None and (self._is_in_head() or self._is_in_body):
            self._refuse(ErrorCode.REQUEST_TIMED_OUT, TOO_SLOW)
        else:
            self._supervised.move(self, self._supervised.leaving)
            self.transport.close()

    def make_room(self) -> None:
        self.transport.abort()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._refusal is not None:
            if self._received_bytes > MAX_DISCARDED_BYTES:
                self.flow.pause_reading()
            return
        if len(data) <= self._quick_bytes and not self._meter.spent_bytes:
            self._parse(data)
        else:
            self._parse_in_pieces(memoryview(data))
        if self._refusal is None:
            phase = self._current_phase()
            if phase is not self.phase:
                self._supervised.move(self, phase)
                self._received_bytes = 0
                self._has_paused = False
            if self.flow.read_paused:
                self._has_paused = True

    def _current_phase(self) -> Phase:
        cycle = self.cycle
        if cycle is None:
            return self._supervised.heads
        if not cycle.response_complete and (self.pipeline or not cycle.more_body):
            return self._supervised.answered
        if self._is_in_body:
            return self._supervised.bodies
        return self._supervised.heads if self._is_in_head() else self._supervised.kept

    def _is_in_head(self) -> bool:
        return self.scope is not None and "method" not in self.scope  # uvicorn adds it at the end of the head

    def _parse_in_pieces(self, data: memoryview) -> None:
        while data and self._refusal is None:
            size_bytes = min(self._meter.room_bytes, PIECE_BYTES)
            self._parse(data[:size_bytes])
            data = data[size_bytes:]

    def _parse(self, piece: bytes | memoryview) -> None:
        try:
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                self._parse_without_upgrade(piece, upgrade.args[0])
        except (httptools.HttpParserError, _Refused) as error:
            refused = error if isinstance(error, _Refused) else error.__context__  # for one raised in a callback
            code, message = refused.args if isinstance(refused, _Refused) else (ErrorCode.MALFORMED_HTTP, INVALID)
            self._refuse(code, message)
            return
        if self._meter.count(len(piece)) and not self._is_within_limits():
            self._refuse(ErrorCode.HEAD_TOO_LARGE, self._too_large())

    def _is_within_limits(self) -> bool:
        return self._meter.room_bytes > 0 and len(self.headers or ()) <= self._limits.head_fields

    def _parse_without_upgrade(self, piece: bytes | memoryview, head_end: int) -> None:
        """Parse a head again without its offer of an upgrade, and the input after it.

        The parser ends such a request with its head, and would take the body for the next request. Some clients offer
        HTTP/2 with every first request, by `Upgrade: h2c`.
        """
        while True:
            if self.scope["method"] == "CONNECT":
                raise _Refused(ErrorCode.NOT_IMPLEMENTED, NO_TUNNEL)
            line = f"{self.scope['method']} ".encode(), self.url, f" HTTP/{self.parser.get_http_version()}\r\n".encode()
            fields = [b"%b: %b\r\n" % field for field in self.scope["headers"] if field[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(b"".join([*line, *fields, b"\r\n"]))
            piece = piece[head_end:]
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                head_end = upgrade.args[0]
            else:
                return

    def on_headers_complete(self) -> None:
        self._meter.has_ended = True
        if len(self.headers) > self._limits.head_fields:
            raise _Refused(ErrorCode.HEAD_TOO_LARGE, self._too_large())
        if len(self.pipeline) >= MAX_AHEAD:
            raise _Refused(ErrorCode.TOO_MANY_REQUESTS, TOO_FAR_AHEAD)
        super().on_headers_complete()
        self._is_in_body = True
        self.headers = []  # for a trailer, whose fields are not part of the request

    def on_chunk_header(self) -> None:
        self._meter.free_bytes += CHUNK_LINE_BYTES

    def on_body(self, body: bytes) -> None:
        self._meter.free_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._meter.has_ended = True
        if len(self.headers) > self._limits.head_fields:
            raise _Refused(ErrorCode.HEAD_TOO_LARGE, self._too_large())
        self._is_in_body = False
        super().on_message_complete()

    def _should_upgrade(self) -> bool:
        return True  # uvicorn leaves such a request alone then

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    # ── responses ────────────────────────────────────────────────────────────────────────────────────────────────

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._hang_up()
        if self._refusal is None:
            self._supervised.move(self, self._current_phase())

    def _refuse(self, code: ErrorCode, message: str) -> None:
        """Respond to the unfinished request, after the responses to those before it."""
        log.info("a request was refused: %s: %s", code, message)
        self._refusal = self._last_response(code, message)
        self._received_bytes = 0
        if self._is_in_body:
            is_answering = self._take_back()
        else:
            is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering:
            self._supervised.move(self, self._supervised.answered)
        else:
            self._hang_up()

    def _take_back(self) -> bool:
        """End the request with the unfinished body; return whether others have no response yet."""
        if self.pipeline:
            self.pipeline.popleft()
            return True
        if self.cycle.response_started:
            self._refusal = b""  # a response that has begun can only be cut
        if not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        return False

    def _hang_up(self) -> None:
        self._supervised.move(self, self._supervised.leaving)
        if not self._refusal:
            self.transport.close()
            return
        self.transport.write(self._refusal)
        self.transport.write_eof()
        self.flow.resume_reading()

    def _last_response(self, code: ErrorCode, message: str) -> bytes:
        reply = refusal_reply(code, message, None, SHARED)  # before routing
        fields = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(reply.body)),
            (b"connection", b"close"),
        ]
        return b"".join([STATUS_LINE[reply.status], *(b"%b: %b\r\n" % field for field in fields), b"\r\n", reply.body])

    def _too_large(self) -> str:
        most = f"{self._limits.head_bytes} bytes or {self._limits.head_fields} fields"
        return f"the request's headers or trailers have more than {most}; send fewer"
