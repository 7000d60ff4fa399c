"""Fetching over real connections: a forbidden host receives none, and every answer has limits of time and size.

Covers: adapters/fetching/deadline, adapters/fetching/messages, adapters/fetching/fetcher, adapters/fetching/headers,
  adapters/fetching/pinned, adapters/fetching/redirects
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.fakes.web.certificates import loopback_tls
from tests.fakes.web.web_target import WebTarget, http_answer, redirect
from tests.support.tools.hostile_urls import HOSTILE, NAMES, Hostile, url_of
from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED, Allowed
from turnstone.adapters.fetching.fetcher import GuardedFetcher
from turnstone.adapters.fetching.messages import Fetched, FetchRequest
from turnstone.domain.errors import FetchFailed, FetchRefused
from turnstone.domain.values.cancellation import StopSignal

SOON_S = 0.3
LONG_S = 30.0
SLACK_S = 5.0  # of a machine that has more to do
EndlessAnswer = Callable[[socket.socket], None]


def resolver(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "there is no such name")
    return NAMES[host]


@pytest.fixture
def target() -> Iterator[WebTarget]:
    with WebTarget() as listening:
        yield listening


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of a server with a certificate of good.test, and the context of a client that trusts it."""
    served, trusted = loopback_tls(tmp_path_factory.mktemp("tls"), "good.test")
    return served, ssl.create_default_context(cafile=str(trusted))


def fetcher_for(target: WebTarget, *more: tuple[str, int], trust: ssl.SSLContext | None = None) -> GuardedFetcher:
    return GuardedFetcher(Allowed.of([("good.test", target.port), *more]), resolver, trust)


def fetch(target: WebTarget, path: str = "/", *, method: str = "GET", **more: Any) -> Fetched:
    return fetcher_for(target).fetch(FetchRequest(method, f"http://good.test:{target.port}{path}", **more))


def failure(target: WebTarget, path: str = "/", kind: type[FetchFailed] = FetchFailed, **more: Any) -> str:
    with pytest.raises(kind) as raised:
        fetch(target, path, **more)
    assert type(raised.value) is kind
    return str(raised.value)


# ---- allowed and forbidden hosts


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: f"{hostile.trick}: {hostile.url[:40]!r}")
def test_a_hostile_url_opens_no_connection(hostile: Hostile, target: WebTarget) -> None:
    fetcher = GuardedFetcher(NOTHING_ALLOWED, resolver)
    with pytest.raises(FetchRefused, match=hostile.rule):
        fetcher.fetch(FetchRequest("GET", url_of(hostile.url, target.port)))
    assert target.connections == 0


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: f"{hostile.trick}: {hostile.url[:40]!r}")
def test_a_redirect_to_a_hostile_url_opens_no_connection(hostile: Hostile, target: WebTarget) -> None:
    """The header has as much of the URL as it can hold; any reading of it is fine, as long as no connection opens."""
    location = url_of(hostile.url, target.port + 1).replace("good.test", "intranet.test")
    with WebTarget() as forbidden:
        location = location.replace(str(target.port + 1), str(forbidden.port))
        sent = location.encode("utf-8", "replace").replace(b"\r\n", b" ").replace(b"\n", b" ").decode("latin-1")
        target.answers["/go"] = redirect(sent[:60_000])
        try:
            fetched = fetch(target, "/go", max_redirects=1)
        except FetchFailed:
            fetched = None
        assert fetched is None or fetched.url.startswith(f"http://good.test:{target.port}/")
        assert forbidden.connections == 0


def test_an_allowed_host_is_called_by_its_own_name(target: WebTarget) -> None:
    fetched = fetch(target, "/a?b=1", params={"c": "d e"}, headers={"X-Key": "k"})
    assert (fetched.status, fetched.body, fetched.url) == (
        200, b"hello", f"http://good.test:{target.port}/a?b=1&c=d+e"
    )  # fmt: skip
    head = target.requests[0][0].split("\r\n")
    assert head[0] == "GET /a?b=1&c=d+e HTTP/1.1"
    assert sorted(line.lower() for line in head[1:]) == [
        "accept-encoding: identity",
        "accept: */*",
        "connection: close",
        f"host: good.test:{target.port}",
        "user-agent: turnstone",
        "x-key: k",
    ]


def test_a_name_with_another_address_at_the_second_lookup_gains_nothing(target: WebTarget) -> None:
    lookups: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) == 1 else ["127.0.0.2"]

    allowed = Allowed.of([("good.test", target.port)])
    GuardedFetcher(allowed, rebinding).fetch(FetchRequest("GET", f"http://good.test:{target.port}/"))
    assert (lookups, target.connections) == (["good.test"], 1)


def test_a_name_is_checked_again_for_every_redirect(target: WebTarget) -> None:
    """Its address is public at first, which passes, and then this machine's."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])
    fetcher = GuardedFetcher(Allowed.of([("good.test", target.port)]), lambda host, port: next(answers))
    target.answers["/go"] = redirect("/again")
    with pytest.raises(FetchRefused, match="it has no public address"):
        fetcher.fetch(FetchRequest("GET", f"http://good.test:{target.port}/go"))
    assert target.connections == 1


def test_the_next_address_is_tried_where_one_does_not_answer(target: WebTarget) -> None:
    fetcher = GuardedFetcher(Allowed.of([("good.test", target.port)]), lambda host, port: ["127.0.0.9", "127.0.0.1"])
    assert fetcher.fetch(FetchRequest("GET", f"http://good.test:{target.port}/")).status == 200


def test_proxies_of_the_environment_are_not_heeded(target: WebTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with WebTarget() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert fetch(target).body == b"hello"
        assert proxy.connections == 0


def test_a_resolver_that_does_not_answer_is_not_waited_for(target: WebTarget) -> None:
    answered = threading.Event()

    def slow(host: str, port: int) -> Sequence[str]:
        answered.wait(LONG_S)
        return ["127.0.0.1"]

    fetcher = GuardedFetcher(Allowed.of([("good.test", target.port)]), slow)
    try:
        with pytest.raises(FetchFailed, match=f"it did not answer in {SOON_S} s"):
            fetcher.fetch(FetchRequest("GET", f"http://good.test:{target.port}/", timeout_s=SOON_S))
    finally:
        answered.set()
    assert target.connections == 0


# ---- TLS


def test_a_server_proves_its_name_and_not_its_address(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    served, trust = tls
    with WebTarget(tls=served) as target:
        fetcher = fetcher_for(target, ("loopback.test", target.port), trust=trust)
        assert fetcher.fetch(FetchRequest("GET", f"https://good.test:{target.port}/")).body == b"hello"
        with pytest.raises(FetchFailed, match="its certificate can't be verified"):
            fetcher.fetch(FetchRequest("GET", f"https://loopback.test:{target.port}/"))
        with pytest.raises(FetchFailed, match="its certificate can't be verified"):
            fetcher_for(target).fetch(FetchRequest("GET", f"https://good.test:{target.port}/"))
        assert target.heads() == ["GET / HTTP/1.1"]


def test_a_server_without_tls_is_not_spoken_to_without(target: WebTarget) -> None:
    target.answers["/"] = lambda sock: sock.sendall(http_answer())
    with pytest.raises(FetchFailed, match=r"did not answer|does not speak TLS|the connection failed"):
        fetcher_for(target).fetch(FetchRequest("GET", f"https://good.test:{target.port}/", timeout_s=SOON_S))
    assert not [head for head in target.heads() if head.startswith("GET")]


def test_https_does_not_lead_to_http(tls: tuple[ssl.SSLContext, ssl.SSLContext], target: WebTarget) -> None:
    served, trust = tls
    with WebTarget({"/go": redirect(f"http://good.test:{target.port}/")}, served) as first:
        fetcher = fetcher_for(first, ("good.test", target.port), trust=trust)
        with pytest.raises(FetchRefused, match="it redirects from https to http"):
            fetcher.fetch(FetchRequest("GET", f"https://good.test:{first.port}/go"))
    assert target.connections == 0


# ---- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/end?x=1", "end?x=1", "//good.test:{port}/end?x=1", "?x=1", "../end?x=1#y"])
def test_a_redirect_to_an_allowed_host_is_followed(target: WebTarget, status: int, location: str) -> None:
    target.answers["/a/go"] = lambda sock: sock.sendall(
        http_answer() if "x=1" in target.heads()[-1] else redirect(url_of(location, target.port), status)
    )
    fetched = fetch(target, "/a/go", headers={"Authorization": "Bearer k"})
    assert (fetched.status, fetched.url[-4:], target.connections) == (200, "?x=1", 2)
    assert all("authorization: Bearer k" in head for head, _ in target.requests)


def test_another_origin_receives_none_of_the_callers_headers(target: WebTarget) -> None:
    """Nor does the first origin after a redirect back to it: by then the other origin chose the request."""
    with WebTarget() as other:
        target.answers["/go"] = redirect(f"http://intranet.test:{other.port}/on")
        other.answers["/on"] = redirect(f"http://good.test:{target.port}/end")
        allowed = Allowed.of([("good.test", target.port), ("intranet.test", other.port)])
        fetcher = GuardedFetcher(allowed, lambda host, port: ["127.0.0.1"])
        secrets = {"Authorization": "Bearer SECRET", "Cookie": "SECRET", "X-Api-Key": "SECRET"}
        fetched = fetcher.fetch(FetchRequest("GET", f"http://good.test:{target.port}/go", secrets))
        assert fetched.url == f"http://good.test:{target.port}/end"
        assert ["SECRET" in head for head, _ in target.requests] == [True, False]
        assert ["SECRET" in head for head, _ in other.requests] == [False]


def test_redirects_end(target: WebTarget) -> None:
    target.answers["/loop"] = redirect("/loop")
    assert "it redirects more than 3 times" in failure(target, "/loop", FetchRefused)
    assert target.connections == 4
    assert "it redirects, and no redirect is followed" in failure(target, "/loop", FetchRefused, max_redirects=0)


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://good.test/", "data:text/plain,x", "ftp://good.test/", "https://u:p@good.test/"],
)
def test_a_redirect_leads_to_no_other_scheme(target: WebTarget, location: str) -> None:
    target.answers["/go"] = redirect(location)
    failure(target, "/go", FetchRefused)
    assert target.connections == 1


@pytest.mark.parametrize("status", [307, 308])
def test_a_post_is_repeated_to_the_same_origin(target: WebTarget, status: int) -> None:
    target.answers["/go"] = redirect("/end", status)
    fetch(target, "/go", method="POST", body=b"{}", headers={"Content-Type": "application/json"})
    assert target.heads() == ["POST /go HTTP/1.1", "POST /end HTTP/1.1"]
    assert [body for _, body in target.requests] == [b"{}", b"{}"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(("status", "is_elsewhere"), [(301, False), (302, False), (303, False), (307, True)])
def test_a_request_that_may_change_something_is_not_redirected_to_another_origin(
    target: WebTarget, method: str, status: int, is_elsewhere: bool
) -> None:
    with WebTarget() as other:
        location = f"http://good.test:{other.port}/" if is_elsewhere else "/end"
        target.answers["/go"] = redirect(location, status)
        fetcher = fetcher_for(target, ("good.test", other.port))
        with pytest.raises(FetchRefused, match="a request that may change something"):
            fetcher.fetch(FetchRequest(method, f"http://good.test:{target.port}/go", body=b"{}"))
        assert (target.connections, other.connections) == (1, 0)


def test_a_redirect_to_nowhere_is_an_answer(target: WebTarget) -> None:
    target.answers["/odd"] = http_answer(b"which?", status="302 Found")
    target.answers["/many"] = http_answer(b"these", "Location: /a", status="300 Multiple Choices")
    assert [fetch(target, path).status for path in ("/odd", "/many")] == [302, 300]


# ---- time


def dripping(first: bytes, drop: bytes) -> EndlessAnswer:
    """Answer without end, each byte long before a timeout of its own."""

    def answer(sock: socket.socket) -> None:
        sock.sendall(first)
        until = time.monotonic() + LONG_S
        while time.monotonic() < until:
            time.sleep(0.02)
            sock.sendall(drop)

    return answer


SLOW: dict[str, EndlessAnswer] = {
    "a body of known length": dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "a body without length": dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
    "chunks": dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "the length of a chunk": dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "headers": dripping(b"HTTP/1.1 200 OK\r\n", b"X"),
    "the status": dripping(b"HTTP/1.1 2", b"0"),
    "promises": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": dripping(b"", b""),
}


@pytest.mark.parametrize("slow", SLOW)
def test_the_timeout_holds_for_the_whole_of_a_dripping_answer(target: WebTarget, slow: str) -> None:
    target.answers["/slow"] = SLOW[slow]
    began = time.monotonic()
    assert failure(target, "/slow", timeout_s=SOON_S).endswith(f"it did not answer in {SOON_S} s")
    assert time.monotonic() - began < SOON_S + SLACK_S


def test_a_handshake_without_end_takes_no_longer(target: WebTarget) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        fetcher = GuardedFetcher(Allowed.of([("good.test", silent.getsockname()[1])]), resolver)
        began = time.monotonic()
        with pytest.raises(FetchFailed, match=f"it did not answer in {SOON_S} s"):
            fetcher.fetch(FetchRequest("GET", f"https://good.test:{silent.getsockname()[1]}/", timeout_s=SOON_S))
        assert time.monotonic() - began < SOON_S + SLACK_S


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cancelled_fetch_ends_at_once(scheme: str) -> None:
    stop = StopSignal()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        threading.Timer(SOON_S, stop.set).start()
        began = time.monotonic()
        with pytest.raises(FetchFailed, match="the request was cancelled"):
            GuardedFetcher(Allowed.of([("good.test", port)]), resolver).fetch(
                FetchRequest("GET", f"{scheme}://good.test:{port}/", timeout_s=LONG_S, stop=stop)
            )
        assert time.monotonic() - began < SOON_S + SLACK_S


def test_a_fetch_cancelled_before_its_start_opens_no_connection(target: WebTarget) -> None:
    stop = StopSignal()
    stop.set()
    assert "the request was cancelled" in failure(target, stop=stop)
    assert target.connections == 0


def test_a_fetch_leaves_no_thread_behind(target: WebTarget) -> None:
    for _ in range(3):
        fetch(target)
    until = time.monotonic() + SLACK_S
    while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)] == []


# ---- size


def endless(first: bytes, part: bytes) -> EndlessAnswer:
    def answer(sock: socket.socket) -> None:
        sock.sendall(first)
        while True:
            sock.sendall(part)

    return answer


ZEROS = bytes(1 << 26)
LENGTHY = {
    "without length": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536),
    "in chunks": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    "of a huge length": endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", b"x" * 65_536),
    "of a chunk below zero": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"x" * 65_536),
    "a gzip bomb": http_answer(gzip.compress(ZEROS, 1), "Content-Encoding: gzip"),
    "a deflate bomb": http_answer(zlib.compress(ZEROS, 1), "Content-Encoding: deflate"),
    "a raw deflate bomb": http_answer(zlib.compress(ZEROS, 1, -15), "Content-Encoding: deflate"),
}  # fmt: skip


@pytest.mark.parametrize("lengthy", LENGTHY)
def test_an_answer_over_its_size_limit_is_refused(target: WebTarget, lengthy: str) -> None:
    target.answers["/long"] = LENGTHY[lengthy]
    assert failure(target, "/long", max_bytes=100_000).endswith("its answer is longer than 100000 bytes")


ENDLESS_LINES = {
    "a status": endless(b"HTTP/1.1 200 ", b"x" * 65_536),
    "a header": endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536),
    "headers": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1_000),
    "a chunk's length": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0" * 65_536),
}


@pytest.mark.parametrize("line", ENDLESS_LINES)
def test_no_line_is_read_without_end(target: WebTarget, line: str) -> None:
    target.answers["/line"] = ENDLESS_LINES[line]
    assert failure(target, "/line", timeout_s=LONG_S).endswith("it does not answer as HTTP servers do")


def test_an_answer_of_exactly_its_size_limit_is_read(target: WebTarget) -> None:
    target.answers["/"] = http_answer(b"x" * 1_000)
    assert len(fetch(target, max_bytes=1_000).body) == 1_000
    assert failure(target, max_bytes=999).endswith("longer than 999 bytes")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", gzip.compress(b"hello")), ("deflate", zlib.compress(b"hello"))],
    ids=["gzip", "deflate"],
)
def test_an_answer_compressed_without_a_request_is_read(target: WebTarget, encoding: str, body: bytes) -> None:
    target.answers["/"] = http_answer(body, f"Content-Encoding: {encoding}")
    assert fetch(target).body == b"hello"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip, br"])
def test_an_answer_with_another_encoding_is_refused(target: WebTarget, encoding: str) -> None:
    target.answers["/"] = http_answer(b"\x0b\x02\x80hello\x03", f"Content-Encoding: {encoding}")
    assert "compressed in a way that was not requested" in failure(target)


# ---- answers


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello",
    b"",
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
])  # fmt: skip
def test_an_incomplete_answer_or_one_that_is_no_http_is_a_failure(target: WebTarget, answer: bytes) -> None:
    target.answers["/"] = answer
    failure(target)


def test_an_answer_is_returned_with_its_type(target: WebTarget) -> None:
    target.answers["/"] = http_answer("grün".encode("latin-1"), "Content-Type: Text/HTML; charset=ISO-8859-1")
    fetched = fetch(target, accepts=("text/*",))
    assert (fetched.media_type, fetched.charset, fetched.text) == ("text/html", "iso-8859-1", "grün")
    assert "accept: text/*" in target.requests[0][0]


def test_a_type_that_is_not_accepted_is_refused_before_it_is_read(target: WebTarget) -> None:
    target.answers["/"] = endless(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"x" * 1_000)
    assert failure(target, accepts=("text/*", "application/json")).endswith("image/png, not text/* or application/json")
    target.answers["/"] = http_answer()
    assert failure(target, accepts=("text/*",)).endswith("its answer is of no type, not text/*")
    target.answers["/"] = http_answer(b"gone", "Content-Type: image/png", status="404 Not Found")
    assert fetch(target, accepts=("text/*",)).status == 404


def test_an_answer_without_a_body_needs_no_type(target: WebTarget) -> None:
    target.answers["/"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert fetch(target, accepts=("application/json",)).status == 204


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified", "404 Not Found", "500 Broken"])
def test_every_status_is_an_answer(target: WebTarget, status: str) -> None:
    target.answers["/"] = http_answer(b"", status=status)
    assert f"{fetch(target).status}" == status[:3]


def test_a_head_has_no_body(target: WebTarget) -> None:
    target.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Encoding: gzip\r\n\r\n"
    assert fetch(target, method="HEAD").body == b""


# ---- requests


@pytest.mark.parametrize(("name", "value"), [
    ("X-A", "a\r\nX-B: b"), ("X-A", "a\nb"), ("X-A", "a\x00"), ("X-A", "a\x7f"), ("X-A", "a\x85b"), ("X-A", "ā"),
    ("X-A\r\nX-B", "a"), ("X-A:", "a"), ("X A", "a"), ("", "a"), ("Ä", "a"),
    ("Host", "169.254.169.254"), ("HOST", "x"), ("Content-Length", "0"), ("Transfer-Encoding", "chunked"),
    ("Connection", "X-Api-Key"), ("Upgrade", "h2c"), ("Expect", "100-continue"), ("TE", "trailers"),
    ("Accept-Encoding", "br"), ("Proxy-Authorization", "x"), ("X-A", "a" * 40_000),
])  # fmt: skip
def test_no_header_changes_the_target_or_the_end_of_a_request(target: WebTarget, name: str, value: str) -> None:
    message = failure(target, kind=FetchRefused, headers={name: value})
    assert not value or len(value) < 4 or value not in message
    assert target.connections == 0


@pytest.mark.parametrize("params", [{"a": "\ud800"}, {"\udfff": "a"}, {"a": "x" * 40_000}, {"a": ["é" * 8_000]}])
def test_a_parameter_too_long_or_invalid_for_a_line_is_not_sent(target: WebTarget, params: dict[str, Any]) -> None:
    failure(target, kind=FetchRefused, params=params)
    assert target.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET /\r\n", "", "G\u0415T", "OPTIONS"])
def test_only_allowed_methods_are_sent(target: WebTarget, method: str) -> None:
    assert "the methods are" in failure(target, kind=FetchRefused, method=method)
    assert target.connections == 0


@pytest.mark.parametrize(("method", "body", "length"), [
    ("POST", b"{}", "content-length: 2"), ("POST", None, "content-length: 0"), ("DELETE", None, None),
    ("GET", None, None),
])  # fmt: skip
def test_a_body_is_sent_with_its_length(target: WebTarget, method: str, body: bytes | None, length: str | None) -> None:
    fetch(target, method=method, body=body)
    head, sent = target.requests[0]
    assert sent == (body or b"")
    assert ("content-length" in head) == (length is not None)
    assert length is None or length in head.split("\r\n")
