"""The protocol class of the local server: it answers requests within its limits, however they are split.

Covers: functions/local/connections, functions/local/http_limits, functions/local/http_only, dialects/openai/errors
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from functions.local.connections import Connections
from functions.local.http_limits import HttpLimits
from functions.local.http_only import MAX_AHEAD, HttpOnly
from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.dialects import SHARED

LIMITS = HttpLimits(head_bytes=400, head_fields=5)
STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d)")
GET = b"GET /small HTTP/1.1\r\nhost: h\r\n\r\n"
CHUNKED = b"POST /chunked HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
PATIENCE_S = 5.0
SHORT_S = 0.04
LATE_S = 0.3  # many times the limit

Scope = dict[str, Any]


class Wire:
    """A transport that keeps the bytes written, and notifies the protocol of its end."""

    def __init__(self) -> None:
        self.written = b""
        self.protocol: HttpOnly | None = None
        self.is_paused = self.has_ended = self._is_closing = False

    def write(self, data: bytes) -> None:
        if not self._is_closing:
            self.written += data

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_extra_info(self, _: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0


class App:
    """Reads each request and answers 200; `/late` is read after a while, `/unread` is answered before it is read."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[bytes, bytes], bytes]] = []

    async def __call__(self, scope: Scope, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        body, more = b"", scope["path"] != "/unread"
        await asyncio.sleep(LATE_S if scope["path"] == "/late" else 0)
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append((scope["path"], dict(scope["headers"]), body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def exchanged(
    pieces: Sequence[bytes], limits: HttpLimits = LIMITS, awaited: bytes = b""
) -> tuple[list[int], App, Wire]:
    """Return the statuses that the pieces are answered with, the app and the wire.

    All but the first piece are sent once the awaited bytes were answered.
    """
    return asyncio.run(_exchanged(pieces, limits, awaited))


async def _exchanged(pieces: Sequence[bytes], limits: HttpLimits, awaited: bytes) -> tuple[list[int], App, Wire]:
    app, wire, state = App(), Wire(), ServerState()
    protocol = HttpOnly(Connections(limits), Config(app, lifespan="off", log_config=None), state, {})
    wire.protocol = protocol
    protocol.connection_made(wire)  # type: ignore[arg-type]
    for piece in pieces:
        await _until(lambda: not wire.is_paused or wire.is_closing())
        if not wire.is_closing():
            protocol.data_received(piece)
        await _until(lambda: awaited in wire.written)
    await _until(lambda: not state.tasks)
    await asyncio.sleep(0)
    statuses = [int(status) for status in STATUS.findall(wire.written)]
    wire.close()
    await asyncio.sleep(0)
    return statuses, app, wire


async def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    await asyncio.sleep(0)
    while not is_so() and time.monotonic() < deadline:
        await asyncio.sleep(0)


def split(data: bytes, at: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(at), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(bounds) if begin < end]


def head_of(size_bytes: int, first: bytes = b"GET /x HTTP/1.1\r\n", fields: int = 1) -> bytes:
    """Return a head of that size with that many fields."""
    lines = b"".join(b"a: b\r\n" for _ in range(fields - 1))
    rest = size_bytes - len(first) - len(lines) - len(b"c: \r\n\r\n")
    head = first + lines + b"c: " + b"v" * rest + b"\r\n\r\n"
    assert len(head) == size_bytes
    return head


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head_of(LIMITS.head_bytes + 1), 431),
        (b"POST /x HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (CHUNKED + b"zz\r\n", 400),
    ],
)
def test_a_refusal_before_any_route_is_in_the_envelope_of_either_api(data: bytes, status: int) -> None:
    statuses, _, wire = exchanged([data])
    reply = json.loads(bytes(wire.written).partition(b"\r\n\r\n")[2])
    assert (statuses, reply) == (
        [status],
        json.loads(SHARED.envelope.refusal(status, reply["detail"], ErrorCode(reply["code"]))),
    )


SPLITS = st.lists(st.integers(0, 1_500), max_size=12)
REQUESTS = (
    (head_of(LIMITS.head_bytes, fields=LIMITS.head_fields), b""),
    (GET, b""),
    (b"POST /body HTTP/1.1\r\ncontent-length: 600\r\n\r\n" + b"x" * 600, b"x" * 600),
    (CHUNKED + b"5;ext=1\r\nhello\r\n3\r\nyou\r\n0\r\ntrailer: 1\r\n\r\n", b"helloyou"),
    (b"POST /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 4\r\n\r\nbody", b"body"),
)


@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=5), SPLITS)
@settings(max_examples=150, deadline=None)
def test_requests_up_to_the_limit_are_answered_however_they_are_split(
    requests: list[tuple[bytes, bytes]], at: list[int]
) -> None:
    data = b"".join(request for request, _ in requests)
    statuses, app, wire = exchanged(split(data, at))
    assert statuses == [200] * len(requests)
    assert [body for _, _, body in app.seen] == [body for _, body in requests]
    assert not wire.has_ended


@given(SPLITS)
@settings(max_examples=60, deadline=None)
def test_a_head_of_one_byte_more_is_refused_however_it_is_split(at: list[int]) -> None:
    statuses, app, wire = exchanged(split(head_of(LIMITS.head_bytes + 1), at))
    assert (statuses, app.seen, wire.has_ended) == ([431], [], True)


ENDLESS = {
    "request line": (b"GET /", b"x"),
    "method that is none": (b"", b"\r\n"),
    "field name": (b"GET / HTTP/1.1\r\n", b"n"),
    "value": (b"GET / HTTP/1.1\r\nname: ", b"v"),
    "blanks before a value": (b"GET / HTTP/1.1\r\nname:", b" "),
    "fields": (b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
    "fields with an offer": (b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n", b"a: b\r\n"),
    "chunk size": (CHUNKED, b"0"),
    "chunk extension": (CHUNKED + b"1;", b"e"),
    "chunk extensions": (CHUNKED, b"1;extension-extension-extension\r\nx\r\n"),
    "trailer": (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n"),
    "trailer value": (CHUNKED + b"1\r\nx\r\n0\r\na: ", b"v"),
    "trailer after an offer": (CHUNKED[:-2] + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n0\r\n", b"a: b\r\n"),
}


@pytest.mark.parametrize("size", [1, 7, 1_000, 300_000])
@pytest.mark.parametrize("what", ENDLESS)
def test_a_part_without_an_end_is_refused(what: str, size: int) -> None:
    first, again = ENDLESS[what]
    endless = again * (20_000 // len(again))
    statuses, app, wire = exchanged([first, *split(endless, range(0, len(endless), size))])
    assert (statuses, app.seen, wire.has_ended) == ([431], [], True)


@pytest.mark.parametrize("what", ENDLESS)
def test_a_refusal_comes_after_the_answers_to_the_requests_before_it(what: str) -> None:
    first, again = ENDLESS[what]
    statuses, app, wire = exchanged([GET + GET + first + again * 20_000])
    assert (statuses, len(app.seen), wire.has_ended) == ([200, 200, 431], 2, True)


@pytest.mark.parametrize("fields", [LIMITS.head_fields, LIMITS.head_fields + 1])
def test_fields_are_counted(fields: int) -> None:
    status = 200 if fields <= LIMITS.head_fields else 431
    assert exchanged([head_of(200, fields=fields)])[0] == [status]
    trailer = b"0\r\n" + b"a: b\r\n" * fields + b"\r\n"
    assert exchanged([CHUNKED + trailer])[0] == [status]
    assert exchanged([CHUNKED, *split(trailer, range(len(trailer)))])[0] == [status]


def test_fields_of_a_trailer_are_not_fields_of_the_request() -> None:
    trailer = b"0\r\nhost: evil\r\nauthorization: Bearer other\r\nidempotency-key: k\r\n\r\n"
    _, app, _ = exchanged([CHUNKED + b"2\r\nhi\r\n" + trailer])
    assert app.seen == [("/chunked", {b"transfer-encoding": b"chunked"}, b"hi")]


def test_bytes_that_are_not_a_request_are_refused_after_the_answers_before_them() -> None:
    assert exchanged([GET + GET + b"\x00\x01 nonsense\r\n\r\n"])[0] == [200, 200, 400]


def test_a_tunnel_is_refused() -> None:
    assert exchanged([b"CONNECT example:443 HTTP/1.1\r\nhost: example:443\r\n\r\n"])[0] == [501]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"\x00\x01 nonsense\r\n\r\n", "malformed_http"),
        (b"CONNECT example:443 HTTP/1.1\r\nhost: example:443\r\n\r\n", "not_implemented"),
        (b"GET / HTTP/1.1\r\nlong: " + b"x" * LIMITS.head_bytes, "head_too_large"),
        (GET * (3 * MAX_AHEAD), "too_many_requests"),
        (b"GET / HT", "request_timed_out"),
    ],
)
def test_a_refusal_of_the_protocol_has_a_code(sent: bytes, code: str) -> None:
    limits = HttpLimits(head_bytes=LIMITS.head_bytes, head_fields=LIMITS.head_fields, head_s=SHORT_S)
    _, _, wire = exchanged([sent], limits, code.encode())
    reply = json.loads(wire.written.rpartition(b"\r\n\r\n")[2])
    assert (reply["code"], bool(reply["detail"])) == (code, True)


def test_after_an_answer_that_came_before_the_whole_body_nothing_more_is_answered() -> None:
    head = b"POST /unread HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    statuses, _, wire = exchanged([head, b"1\r\nx\r\n", b"1;" + b"e" * 1_000])
    assert (statuses, wire.is_closing()) == ([200], True)


def test_requests_sent_far_ahead_of_their_answers_are_answered_and_no_others() -> None:
    statuses, app, _ = exchanged([GET * (3 * MAX_AHEAD)])
    assert statuses == [200] * (MAX_AHEAD + 1) + [429]
    assert len(app.seen) == MAX_AHEAD + 1


def test_time_in_which_the_server_does_not_read_a_body_does_not_count() -> None:
    body = b"x" * 100_000
    head = b"POST /late HTTP/1.1\r\ncontent-length: 100000\r\n\r\n"
    statuses, app, _ = exchanged([head, body[:80_000], body[80_000:]], HttpLimits(body_s=SHORT_S))
    assert (statuses, [len(body) for _, _, body in app.seen]) == ([200], [100_000])


def test_time_before_the_server_reads_a_body_does_not_count() -> None:
    head = b"POST /late HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n"
    statuses, app, _ = exchanged([head, b"body"], HttpLimits(body_s=SHORT_S), awaited=b"100 Continue")
    assert (statuses, [body for _, _, body in app.seen]) == ([100, 200], [b"body"])


@pytest.mark.parametrize("first", [b"GET / HT", GET + b"GET", b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n"])
def test_a_request_that_does_not_arrive_in_time_is_refused(first: bytes) -> None:
    limits = HttpLimits(head_s=SHORT_S, body_s=SHORT_S)
    statuses, _, wire = exchanged([first], limits, b" 408 ")
    assert (statuses, wire.has_ended) == ([200, 408] if first.startswith(GET) else [408], True)


def test_a_disconnect_reaches_a_request_behind_one_that_was_sent_ahead() -> None:
    received: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Callable[[], Any], _: Callable[[Any], Any]) -> None:
        message = await receive()
        while message["type"] == "http.request":
            message = await receive()
        received.append((scope["path"], message["type"]))

    async def exchange() -> None:
        wire, state = Wire(), ServerState()
        protocol = HttpOnly(Connections(LIMITS), Config(app, lifespan="off", log_config=None), state, {})
        wire.protocol = protocol
        protocol.connection_made(wire)  # type: ignore[arg-type]
        protocol.data_received(GET + GET.replace(b"small", b"ahead"))
        await asyncio.sleep(0)
        wire.close()
        await _until(lambda: not state.tasks)

    asyncio.run(exchange())
    assert received == [("/small", "http.disconnect")]
