"""The fetch rules for libraries that use httpx: a guarded transport.

It imports httpx2, used by the `mcp` package, at module level; import this module lazily.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import httpcore2 as httpcore
import httpx2 as httpx

from turnstone.adapters.fetching.addresses import Address, to_address
from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.fetching.bodies import Body
from turnstone.adapters.fetching.rules import Resolver, checked, resolve_host
from turnstone.adapters.fetching.targets import FetchTarget
from turnstone.domain.errors import FetchFailed, FetchRefused

if TYPE_CHECKING:
    import ssl

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_CONNECTIONS = 16
MAX_REDIRECTS = 3
TRIED_ADDRESSES = 4
CONNECT_TIMEOUT_S = 5.0  # seconds per address
NOT_CONNECTED = "it can't be connected to"
OURS = (b"host", b"accept-encoding")
REPEATED_BY = (307, 308)  # redirects that keep method and body


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests to public https addresses and allowed hosts, bypassing the environment's proxies.

    Follows redirects 307 and 308 within an origin, with which servers answer a missing slash; returns any other
    redirect as a response. Passes `FetchRefused` and `FetchFailed` through unchanged, and converts other failures
    to httpx's errors.
    """

    def __init__(self, allowed: Allowed, resolver: Resolver, tls: ssl.SSLContext) -> None:
        self._allowed = allowed
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            network_backend=GuardedBackend(allowed, resolver),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = checked(str(request.url), self._allowed)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._answer(request, target)
            again = self._same_origin_redirect(target, response)
            if again is None or not isinstance(request.stream, httpx.ByteStream):
                return response
            await response.aclose()
            target = again
        raise FetchFailed(target.origin, f"it redirects more than {MAX_REDIRECTS} times")

    async def aclose(self) -> None:
        await self._pool.aclose()

    def _same_origin_redirect(self, target: FetchTarget, response: httpx.Response) -> FetchTarget | None:
        location = response.headers.get("location")
        if response.status_code not in REPEATED_BY or not location:
            return None
        try:
            again = checked(str(httpx.URL(target.url).join(location)), self._allowed)
        except (httpx.InvalidURL, FetchRefused):
            return None
        return again if again.origin == target.origin else None

    async def _answer(self, request: httpx.Request, target: FetchTarget) -> httpx.Response:
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in OURS]
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=target.scheme, host=str(target.host), port=target.port, target=target.request_target
            ),
            headers=[(b"Host", target.authority.encode()), *headers, (b"Accept-Encoding", b"identity")],
            content=request.stream,
            extensions={"timeout": request.extensions.get("timeout", {})},  # extensions could name another host to TLS
        )
        with _errors_of_httpx():
            answer = await self._pool.handle_async_request(sent)
        fields = httpx.Headers(answer.headers)
        try:
            body = Body(fields.get("content-encoding"), MAX_ANSWER_BYTES, target.origin)
            body.announce(_length(fields))
        except FetchFailed:
            await answer.aclose()
            raise
        fields.pop("content-encoding", None)
        return httpx.Response(answer.status, headers=fields, stream=_Capped(answer, body), extensions=answer.extensions)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Resolves a host once, and connects to one of its addresses if all of them are allowed."""

    def __init__(self, allowed: Allowed, resolver: Resolver) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the pool names none
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        named = FetchTarget("https", to_address(host) or host, port, "/")
        try:
            with anyio.fail_after(timeout):
                addresses = await anyio.to_thread.run_sync(
                    partial(resolve_host, named, self._allowed, self._resolver), abandon_on_cancel=True
                )
                return await self._connected(addresses[:TRIED_ADDRESSES], port, socket_options)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(NOT_CONNECTED) from error

    async def _connected(
        self, addresses: tuple[Address, ...], port: int, options: Iterable[httpcore.SOCKET_OPTION] | None
    ) -> httpcore.AsyncNetworkStream:
        for address in addresses:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._network.connect_tcp(str(address), port, CONNECT_TIMEOUT_S, socket_options=options)
        raise httpcore.ConnectError(NOT_CONNECTED)

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)


class _Capped(httpx.AsyncByteStream):
    """A decompressed body that fails over its size limit."""

    def __init__(self, answer: httpcore.Response, body: Body) -> None:
        self._answer = answer
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for part in self._answer.aiter_stream():
                yield self._body.feed(part)
        self._body.end()

    async def aclose(self) -> None:
        with _errors_of_httpx():
            await self._answer.aclose()


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    """Convert errors of httpcore to the httpx errors of the same name."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.UnsupportedProtocol,
    ) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


def _length(headers: httpx.Headers) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and "transfer-encoding" not in headers else None
