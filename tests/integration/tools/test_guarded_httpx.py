"""The guard under httpx: a library with its own client reaches only the hosts that other fetches reach.

Covers: adapters/fetching/guarded_httpx, adapters/fetching/rules
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.fakes.web.certificates import loopback_tls
from tests.fakes.web.web_target import WebTarget, http_answer, redirect
from tests.support.tools.hostile_urls import HOSTILE, NAMES, url_of
from turnstone.adapters.fetching import guarded_httpx
from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED, Allowed
from turnstone.adapters.fetching.guarded_httpx import GuardedTransport
from turnstone.adapters.fetching.rules import Resolver
from turnstone.domain.errors import FetchFailed, FetchRefused

Send = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]
NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def resolver(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise OSError("there is no such name")
    return NAMES[host]


def client_of(
    allowed: Allowed, resolver: Resolver = resolver, *, tls: ssl.SSLContext = NO_TRUST, timeout_s: float = 5
) -> httpx.AsyncClient:
    transport = GuardedTransport(allowed, resolver, tls)
    return httpx.AsyncClient(transport=transport, headers={"X-Key": "k"}, timeout=timeout_s)


@pytest.fixture
def target() -> Iterator[WebTarget]:
    with WebTarget() as listening:
        yield listening


def answered(target: WebTarget, send: Send, *more: tuple[str, int], trust: ssl.SSLContext = NO_TRUST) -> httpx.Response:
    async def request() -> httpx.Response:
        allowed = Allowed.of([("good.test", target.port), *more])
        async with client_of(allowed, tls=trust) as client:
            return await send(client)

    return asyncio.run(request())


def got(target: WebTarget, path: str = "/") -> httpx.Response:
    return answered(target, lambda client: client.get(f"http://good.test:{target.port}{path}"))


def test_a_hostile_url_opens_no_connection(target: WebTarget) -> None:
    async def not_refused() -> list[str]:
        async with client_of(NOTHING_ALLOWED) as client:
            return [
                hostile.url for hostile in HOSTILE if not await is_refused(client, url_of(hostile.url, target.port))
            ]

    async def is_refused(client: httpx.AsyncClient, url: str) -> bool:
        try:
            await client.get(url)
        except (FetchRefused, httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            return True
        return False

    assert asyncio.run(not_refused()) == []
    assert target.connections == 0


def test_an_allowed_host_is_called_by_its_own_name(target: WebTarget) -> None:
    answer = got(target, "/a?b=%20c")
    assert (answer.status_code, answer.text) == (200, "hello")
    head = target.requests[0][0].lower().split("\r\n")
    assert head[0] == "get /a?b=%20c http/1.1"
    assert {f"host: good.test:{target.port}", "x-key: k", "accept-encoding: identity"} <= set(head)


def test_a_header_does_not_change_the_target_of_a_request(target: WebTarget) -> None:
    url = f"http://good.test:{target.port}/"
    answered(target, lambda client: client.get(url, headers={"Host": "169.254.169.254", "Accept-Encoding": "br"}))
    assert "169.254" not in target.requests[0][0]
    assert "br" not in target.requests[0][0].lower().split("accept-encoding: ")[1].split("\r\n")[0]


def test_a_name_is_resolved_once_for_a_connection(target: WebTarget) -> None:
    lookups: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) == 1 else ["127.0.0.2"]

    async def fetch() -> None:
        allowed = Allowed.of([("good.test", target.port)])
        async with client_of(allowed, rebinding) as client:
            await client.get(f"http://good.test:{target.port}/")

    asyncio.run(fetch())
    assert (lookups, target.connections) == (["good.test"], 1)


def test_a_server_proves_its_name_and_not_its_address(tmp_path: Path) -> None:
    served, trusted = loopback_tls(tmp_path, "good.test")
    trust = ssl.create_default_context(cafile=str(trusted))
    with WebTarget(tls=served) as target:
        origin = ("loopback.test", target.port)
        url = f"https://good.test:{target.port}/"
        assert answered(target, lambda client: client.get(url), trust=trust).text == "hello"
        with pytest.raises(httpx.ConnectError, match="certificate"):
            answered(target, lambda client: client.get(url.replace("good", "loopback")), origin, trust=trust)


def test_a_redirect_within_the_origin_that_repeats_the_request_is_followed(target: WebTarget) -> None:
    target.answers["/mcp"] = redirect("/mcp/", 307)
    answer = answered(target, lambda client: client.post(f"http://good.test:{target.port}/mcp", json={"a": 1}))
    assert (answer.text, target.heads()) == ("hello", ["POST /mcp HTTP/1.1", "POST /mcp/ HTTP/1.1"])
    assert [body for _, body in target.requests] == [b'{"a":1}', b'{"a":1}']


@pytest.mark.parametrize(
    "location", ["https://loopback.test/", "http://127.0.0.1:{port}/", "file:///etc/passwd", "https://[", "\\\\x"]
)
def test_a_redirect_to_a_forbidden_host_is_not_followed(target: WebTarget, location: str) -> None:
    target.answers["/go"] = redirect(url_of(location, target.port), 307)
    assert got(target, "/go").status_code == 307
    assert target.connections == 1


def test_any_other_redirect_is_an_answer(target: WebTarget) -> None:
    with WebTarget() as other:
        target.answers["/elsewhere"] = redirect(f"http://good.test:{other.port}/", 307)
        target.answers["/found"] = redirect("/", 302)
        url = f"http://good.test:{target.port}"
        for path, status in (("/elsewhere", 307), ("/found", 302)):
            answer = answered(target, lambda client, path=path: client.get(url + path), ("good.test", other.port))
            assert answer.status_code == status
        assert other.connections == 0


def test_redirects_end(target: WebTarget) -> None:
    target.answers["/loop"] = redirect("/loop", 308)
    with pytest.raises(FetchFailed, match="it redirects more than 3 times"):
        got(target, "/loop")
    assert len(target.requests) == 4


def test_an_answer_has_only_so_much_room(target: WebTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_httpx, "MAX_ANSWER_BYTES", 100_000)
    target.answers["/long"] = http_answer(bytes(100_001))
    target.answers["/bomb"] = http_answer(gzip.compress(bytes(1 << 24), 1), "Content-Encoding: gzip")
    target.answers["/endless"] = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + bytes(100_001)
    for path in ("/long", "/bomb", "/endless"):
        with pytest.raises(FetchFailed, match="longer than 100000 bytes"):
            got(target, path)


def test_an_answer_compressed_without_a_request_is_read(target: WebTarget) -> None:
    target.answers["/gzip"] = http_answer(gzip.compress(b"hello"), "Content-Encoding: gzip")
    target.answers["/br"] = http_answer(b"\x0b\x02\x80hello\x03", "Content-Encoding: br")
    assert got(target, "/gzip").text == "hello"
    with pytest.raises(FetchFailed, match="compressed in a way"):
        got(target, "/br")


def test_errors_of_the_line_are_those_of_httpx(target: WebTarget) -> None:
    target.answers["/"] = b""
    with pytest.raises(httpx.RemoteProtocolError):
        got(target)
    closed = target.port
    with WebTarget() as soon_closed:
        closed = soon_closed.port
    url = f"http://good.test:{closed}/"
    with pytest.raises(httpx.ConnectError):
        answered(target, lambda client: client.get(url), ("good.test", closed))


def test_a_resolver_that_does_not_answer_is_not_waited_for(target: WebTarget) -> None:
    def slow(host: str, port: int) -> Sequence[str]:
        time.sleep(0.5)
        return ["127.0.0.1"]

    async def fetch() -> None:
        allowed = Allowed.of([("good.test", target.port)])
        async with client_of(allowed, slow, timeout_s=0.1) as client:
            with pytest.raises(httpx.ConnectTimeout):
                await client.get(f"http://good.test:{target.port}/")

    asyncio.run(fetch())
    assert target.connections == 0


def test_proxies_of_the_environment_are_not_heeded(target: WebTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    with WebTarget() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert got(target).text == "hello"
        assert proxy.connections == 0
