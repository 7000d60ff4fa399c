"""The guard for libraries that bring httpx: a transport whose connections keep to the rules of every other fetch.

It imports httpx2, which the `mcp` package uses, at once; whoever may do without imports this module where it is needed.
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
from turnstone.adapters.fetching.rules import Resolver, checked, looked_up
from turnstone.adapters.fetching.targets import FetchTarget
from turnstone.domain.errors import FetchFailed, FetchRefused

if TYPE_CHECKING:
    import ssl

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_CONNECTIONS = 16
MAX_REDIRECTS = 3
TRIED_ADDRESSES = 4
CONNECT_TIMEOUT_S = 5.0  # for each address
NOT_CONNECTED = "it can't be connected to"
OURS = (b"host", b"accept-encoding")
REPEATED_BY = (307, 308)  # redirects that want the same method and body again


class GuardedTransport(httpx.AsyncBaseTransport):
    """Asks public https addresses and what is allowed, past the environment's proxies.

    Redirects 307 and 308 within an origin are followed, as servers answer a missing slash with them; any other
    redirect is an answer like others. `FetchRefused` and `FetchFailed` come out of it as they are, what else goes
    wrong as httpx's errors.
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
            again = self._same_place_again(target, response)
            if again is None or not isinstance(request.stream, httpx.ByteStream):
                return response
            await response.aclose()
            target = again
        raise FetchFailed(target.origin, f"it redirects more than {MAX_REDIRECTS} times")

    async def aclose(self) -> None:
        await self._pool.aclose()

    def _same_place_again(self, target: FetchTarget, response: httpx.Response) -> FetchTarget | None:
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
            extensions={"timeout": request.extensions.get("timeout", {})},  # others could name another host to TLS
        )
        with _errors_of_httpx():
            answer = await self._pool.handle_async_request(sent)
        told = httpx.Headers(answer.headers)
        try:
            body = Body(told.get("content-encoding"), MAX_ANSWER_BYTES, target.origin)
            body.announce(_length(told))
        except FetchFailed:
            await answer.aclose()
            raise
        told.pop("content-encoding", None)
        return httpx.Response(answer.status, headers=told, stream=_Capped(answer, body), extensions=answer.extensions)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Looks a host up once, and connects to an address it was found to have if all of them may be asked."""

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
                    partial(looked_up, named, self._allowed, self._resolver), abandon_on_cancel=True
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
    """An answer's body as it was before it was compressed, ended by an error where it is too long."""

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
    """Have the errors below come out as those of httpx, which names them alike."""
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
    said = headers.get("content-length", "")
    return int(said) if said.isdecimal() and "transfer-encoding" not in headers else None
