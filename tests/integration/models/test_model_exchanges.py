"""Responses of model servers as bytes: framings, oddities that are accepted, and violations that are not.

Covers: adapters/outgoing/exchanges
"""

import gzip
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from urllib3.exceptions import NewConnectionError, SSLError
from urllib3.util import parse_url

from tests.fakes.web.certificates import loopback_tls
from tests.fakes.web.web_target import WebTarget
from turnstone.adapters.outgoing import exchanges
from turnstone.adapters.outgoing.connections import Line
from turnstone.adapters.outgoing.exchanges import ExchangeFailed, Exchanges, Response

CLOSES = b""  # the server closes the connection
OK = b"HTTP/1.1 200 OK\r\n"
COMPRESSED = gzip.compress(b"ab")
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class ByteServer:
    """Answers each request with the next list of bytes, each of them sent by itself."""

    def __init__(self, listening: socket.socket, answers: Sequence[Sequence[bytes]]) -> None:
        self.port = listening.getsockname()[1]
        self.connections = 0
        self.requests: list[bytes] = []
        self._listening = listening
        self._answers = list(answers)

    def serve(self) -> None:
        with suppress(OSError):
            while self._answers:
                connection, _ = self._listening.accept()
                self.connections += 1
                with connection:
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (request := _whole_request(connection)) and self._answers:
            self.requests.append(request)
            for piece in self._answers.pop(0):
                if piece == CLOSES:
                    return
                connection.sendall(piece)


def _whole_request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        if not (part := connection.recv(65_536)):
            return b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def served(*answers: Sequence[bytes]) -> Iterator[tuple[ByteServer, Exchanges]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = ByteServer(listening, answers)
        serving = Thread(target=server.serve, daemon=True)
        serving.start()
        made = Exchanges(parse_url(f"http://127.0.0.1:{server.port}/v1"), 4, 5)
        yield server, made
        for kept in made._idle:  # or the server would wait for their next requests
            kept.close()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
    serving.join(5)


def begun(made: Exchanges, body: bytes | None = b"{}", timeout_s: float = 5) -> Response:
    return made.begin("POST", "/v1/chat", body, {"Accept": "a", "Authorization": "Bearer k"}, Line(), timeout_s)


def body_of(response: Response) -> bytes:
    body = b"".join(response.pieces())
    response.settle(is_over=True)
    return body


@pytest.mark.parametrize(
    "answer",
    [
        [OK + b"Content-Length: 2\r\n\r\nab"],
        [OK + b"Content-Length: 2\r\n\r\n", b"a", b"b"],
        [CHUNKED + b"1\r\na\r\n", b"1\r\nb\r\n0\r\n\r\n"],
        [CHUNKED + b"1;x=y\r\na\r\n1\r", b"\nb\r\n0\r\nTrailer: t\r\n\r\n"],
        [OK + b"\r\nab", CLOSES],
        [b"HTTP/1.0 200 OK\r\n\r\na", b"b", CLOSES],
        [b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n", OK + b"Content-Length: 2\r\n\r\nab"],
        [b"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nab"],
        [b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab"],
        [OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"],
        [OK + b"X: folded\r\n header\r\nContent-Length: 2\r\n\r\nab"],
        [*(bytes([byte]) for byte in CHUNKED + b"2\r\nab\r\n0\r\n\r\n")],
        [OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(COMPRESSED), COMPRESSED],
    ],
)
def test_every_framing_is_read_and_leaves_a_usable_connection_or_none(answer: list[bytes]) -> None:
    with served(answer, [OK + b"Content-Length: 3\r\n\r\nnew"]) as (server, made):
        assert body_of(begun(made)) == b"ab"
        assert body_of(begun(made)) == b"new"
        is_closed = CLOSES in answer
    assert server.connections == 1 + is_closed


@pytest.mark.parametrize(
    ("answer", "was_silent"),
    [
        ([CLOSES], True),
        ([b"HTTP/1.1 200", CLOSES], False),
        ([b"junk\r\n\r\n"], False),
        ([b"HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], False),
        ([OK + b"X: " + b"x" * 300_000], False),
    ],
)
def test_a_head_that_never_comes_fails(answer: list[bytes], was_silent: bool) -> None:
    with served(answer) as (_, made), pytest.raises(ExchangeFailed) as caught:
        begun(made)
    assert caught.value.was_silent is was_silent


@pytest.mark.parametrize(
    "answer",
    [
        [OK + b"Content-Length: 3\r\n\r\nab", CLOSES],
        [CHUNKED + b"2\r\nab\r\n", CLOSES],
        [CHUNKED + b"2\r\nab\r\n", b"-1\r\n"],
        [CHUNKED + b"2\r\nab\r\n-1\r\n"],
        [CHUNKED + b"2\r\nab\r\nzz\r\n"],
    ],
)
def test_a_body_without_its_end_fails_after_what_has_arrived(answer: list[bytes]) -> None:
    with served(answer, [OK + b"Content-Length: 3\r\n\r\nnew"]) as (server, made):
        response = begun(made)
        with pytest.raises(ExchangeFailed):
            assert [piece for piece in response.pieces()] == []
        response.settle(is_over=False)
        assert body_of(begun(made)) == b"new"
    assert server.connections == 2


def test_a_body_that_cannot_be_decompressed_fails() -> None:
    with served([OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab"]) as (_, made):
        response = begun(made)
        with pytest.raises(ExchangeFailed, match="decompressed"):
            list(response.pieces())
        response.settle(is_over=False)


@pytest.mark.parametrize(
    "answer",
    [
        [OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nab"],
        [OK + b"Content-Length: 2\r\n\r\nab" + OK + b"Content-Length: 1\r\n\r\nz"],
        [OK + b"Content-Length: 2\r\n\r\nabjunk"],
    ],
)
def test_a_connection_with_more_than_its_response_is_not_used_again(answer: list[bytes]) -> None:
    with served(answer, [OK + b"Content-Length: 3\r\n\r\nnew"]) as (server, made):
        assert body_of(begun(made)) == b"ab"
        assert body_of(begun(made)) == b"new"
    assert server.connections == 2


def test_silence_is_a_timeout_before_and_within_a_response() -> None:
    with served([b"HTTP/1.1 200 OK\r\n"]) as (_, made), pytest.raises(TimeoutError):
        begun(made, timeout_s=0.1)
    with served([CHUNKED + b"1\r\na\r\n"]) as (_, made):
        response = begun(made, timeout_s=0.1)
        with pytest.raises(TimeoutError):
            list(response.pieces())
        response.settle(is_over=False)


def test_a_response_has_a_largest_size_with_its_framing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MOST_BYTES", 1_000)
    with served([CHUNKED + b"1" + b";x=y" * 1_000]) as (_, made), pytest.raises(ExchangeFailed):
        list(begun(made).pieces())


def test_a_request_is_sent_as_http_client_sent_it_and_whole_at_any_size() -> None:
    large = b"x" * 200_000
    with served([OK + b"Content-Length: 0\r\n\r\n"], [OK + b"Content-Length: 0\r\n\r\n"]) as (server, made):
        assert body_of(begun(made)) == b""
        assert body_of(begun(made, large)) == b""
    head = (
        b"POST /v1/chat HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept-Encoding: identity\r\nContent-Length: %d\r\n"
        b"Accept: a\r\nAuthorization: Bearer k\r\n\r\n"
    )
    assert server.requests == [head % (server.port, 2) + b"{}", head % (server.port, len(large)) + large]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("http://model/v1", "model"),
        ("http://model:80/v1", "model"),
        ("https://model:443/v1", "model"),
        ("http://model:443/v1", "model:443"),
        ("http://[::1]:9/v1", "[::1]:9"),
    ],
)
def test_the_host_is_named_without_its_usual_port(url: str, field: str) -> None:
    head = Exchanges(parse_url(url), 1, 1)._head("GET", "/v1/models", None, {})
    assert head == f"GET /v1/models HTTP/1.1\r\nHost: {field}\r\nAccept-Encoding: identity\r\n\r\n".encode()


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\nb", "a\rb"])
def test_no_header_begins_another_line(value: str) -> None:
    with pytest.raises(ValueError, match="line feed"):
        Exchanges(parse_url("http://model/v1"), 1, 1)._head("GET", "/", None, {"A": value})


def test_idle_connections_are_kept_up_to_a_number_and_closed_with_their_owner() -> None:
    answers = [[OK + b"Content-Length: 1\r\n\r\na"]] * 2
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = parse_url(f"http://127.0.0.1:{listening.getsockname()[1]}")
        server = ByteServer(listening, answers)
        Thread(target=server.serve, daemon=True).start()
        made = Exchanges(url, 0, 5)
        assert [body_of(begun(made)) for _ in answers] == [b"a", b"a"]
    assert server.connections == 2


def test_a_server_that_is_not_there_is_named_by_urllib3() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = parse_url(f"http://127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(NewConnectionError):
        begun(Exchanges(url, 1, 1))


def test_a_response_settled_twice_leaves_its_connection_to_one_exchange() -> None:
    with served([OK + b"Content-Length: 1\r\n\r\na"]) as (_, made):
        response = begun(made)
        assert body_of(response) == b"a"
        response.settle(is_over=False)
        assert len(made._idle) == 1


def test_a_cancellation_after_a_response_leaves_the_connection_of_the_next_one() -> None:
    with served([OK + b"Content-Length: 1\r\n\r\na"], [OK + b"Content-Length: 1\r\n\r\nb"]) as (server, made):
        line = Line()
        assert body_of(made.begin("POST", "/v1/chat", b"{}", {}, line, 5)) == b"a"
        line.cut()
        assert body_of(begun(made)) == b"b"
        assert server.connections == 1


def test_a_response_of_a_cut_line_leaves_no_connection() -> None:
    with served([OK + b"Content-Length: 1\r\n\r\na"]) as (_, made):
        line = Line()
        response = made.begin("POST", "/v1/chat", b"{}", {}, line, 5)
        line.cut()
        assert body_of(response) == b"a"
        assert not made._idle


def test_bytes_after_a_compressed_body_are_dropped_as_they_arrive() -> None:
    surplus = [b"x" * 65_536] * 6
    compressed = OK + b"Content-Encoding: gzip\r\n\r\n"
    with served([compressed, COMPRESSED, *surplus, CLOSES]) as (_, made):
        response = begun(made)
        assert b"".join(response.pieces()) == b"ab"
        assert response._inflater is not None
        assert len(response._inflater.unused_data) <= exchanges.READ_BYTES
        response.settle(is_over=False)


def test_a_trailer_has_a_largest_size() -> None:
    with served([CHUNKED + b"1\r\na\r\n0\r\nX: ", *[b"x" * 65_536] * 6, b"\r\n\r\n"]) as (_, made):
        response = begun(made)
        with pytest.raises(ExchangeFailed, match="framing"):
            list(response.pieces())
        response.settle(is_over=False)


def test_a_request_is_sent_only_to_a_server_that_proves_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, trusted = loopback_tls(tmp_path)
    with WebTarget(tls=context) as target:

        def exchanges_with(host: str) -> Exchanges:
            return Exchanges(parse_url(f"https://{host}:{target.port}/v1"), 0, 5)

        with pytest.raises(SSLError):
            begun(exchanges_with("127.0.0.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        with pytest.raises(SSLError):
            begun(exchanges_with("localhost"))
        assert target.requests == []
        assert body_of(begun(exchanges_with("127.0.0.1"))) == b"hello"
        assert [body for _, body in target.requests] == [b"{}"]
