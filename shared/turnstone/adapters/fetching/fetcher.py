"""Fetch URLs chosen by agents, documents, tool definitions or models."""

from __future__ import annotations

import ssl
from contextlib import closing
from functools import cached_property, partial
from http.client import HTTPException, HTTPResponse, IncompleteRead

from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED, Allowed
from turnstone.adapters.fetching.bodies import Body
from turnstone.adapters.fetching.deadline import Deadline
from turnstone.adapters.fetching.headers import callers_headers, headers_to_send
from turnstone.adapters.fetching.messages import Fetched, FetchRequest, charset_of, is_accepted, media_type_of
from turnstone.adapters.fetching.pinned import PinnedConnection
from turnstone.adapters.fetching.redirects import REDIRECTS, Hop, next_hop
from turnstone.adapters.fetching.rules import Resolver, checked, resolve_host, system_resolver
from turnstone.domain.errors import FetchFailed, FetchRefused

READ_BYTES = 64 * 1024
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
UNTYPED = "of no type"
BROKEN_OFF = "its answer broke off"
WITH_BODY = ("POST", "PUT", "PATCH")


class GuardedFetcher:
    """Fetches from public hosts over https, and from hosts the operator allows, bypassing the environment's proxies."""

    def __init__(
        self,
        allowed: Allowed = NOTHING_ALLOWED,
        resolver: Resolver = system_resolver,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Create the fetcher without connecting.

        Args:
            resolver: the name resolver.
            tls: the TLS context; default: this machine's trust store.
        """
        self._allowed = allowed
        self._resolver = resolver
        self._tls_context = tls

    def fetch(self, request: FetchRequest) -> Fetched:
        """Return the complete response, of any status.

        Raises:
            FetchRefused: this URL or a redirect is not allowed; no request reached that host.
            FetchFailed: no usable answer arrived in time.
        """
        hop = self._first_hop(request)
        with Deadline(request.timeout_s, request.stop) as deadline:
            for _ in range(request.max_redirects + 1):
                answer = self._requested(hop, request, deadline)
                if isinstance(answer, Fetched):
                    return answer
                hop = answer
        raise FetchRefused(hop.target.origin, f"it redirects more than {request.max_redirects} times")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if self._tls_context is not None:
            return self._tls_context
        tls = ssl.create_default_context()
        tls.set_alpn_protocols(["http/1.1"])
        return tls

    def _first_hop(self, request: FetchRequest) -> Hop:
        target = checked(request.url, self._allowed, request.params)
        if request.method not in METHODS:
            raise FetchRefused(target.origin, f"the methods are {', '.join(METHODS)}")
        return Hop(request.method, target, callers_headers(request.headers, target), request.body)

    def _requested(self, hop: Hop, request: FetchRequest, deadline: Deadline) -> Fetched | Hop:
        """Return the response, or the next hop of a redirect. Raises FetchRefused, FetchFailed."""
        shown = hop.target.origin
        deadline.left_s(shown)
        try:
            addresses = resolve_host(hop.target, self._allowed, partial(deadline.resolve_host, self._resolver))
        except FetchFailed:
            deadline.left_s(shown)  # a cancelled lookup yields no address, which proves nothing about the name
            raise
        tls = self._tls if hop.target.scheme == "https" else None
        try:
            with closing(PinnedConnection(hop.target, addresses, deadline, tls)) as connection:
                _send(connection, hop, request)
                with closing(connection.getresponse()) as response:
                    location = response.getheader("location")
                    if not request.max_redirects and location and response.status in REDIRECTS:
                        raise FetchRefused(shown, "it redirects, and no redirect is followed")
                    onward = next_hop(hop, response.status, location, self._allowed)
                    answer = onward or _read(response, hop, request)
        except (OSError, HTTPException, FetchFailed) as error:
            if deadline.is_over and not isinstance(error, FetchRefused):
                raise deadline.ended(shown) from error
            if isinstance(error, FetchFailed):
                raise
            raise FetchFailed(shown, _meaning(error)) from error
        deadline.left_s(shown)  # a cut connection resembles the end of a body without a length
        return answer


def _send(connection: PinnedConnection, hop: Hop, request: FetchRequest) -> None:
    connection.putrequest(hop.method, hop.target.request_target, skip_host=True, skip_accept_encoding=True)
    for name, value in headers_to_send(hop.target, hop.headers, request.accepts).items():
        connection.putheader(name, value)
    if hop.body is not None or hop.method in WITH_BODY:
        connection.putheader("content-length", str(len(hop.body or b"")))
    connection.endheaders(hop.body or None)


def _read(response: HTTPResponse, hop: Hop, request: FetchRequest) -> Fetched:
    """Return the response with its body. Raises FetchFailed, OSError, HTTPException."""
    shown = hop.target.origin
    content_type = response.getheader("content-type")
    media_type = media_type_of(content_type)
    if response.status < 200:
        raise FetchFailed(shown, "it wants to switch from HTTP to another protocol")
    has_body = response.length != 0
    if has_body and response.status < 400 and not is_accepted(media_type, request.accepts):
        raise FetchFailed(shown, f"its answer is {media_type or UNTYPED}, not {' or '.join(request.accepts or ())}")
    body = Body(response.getheader("content-encoding"), request.max_bytes, shown)
    body.announce(response.length)
    read = bytearray()
    while part := response.read1(READ_BYTES):  # read() would take a chunk of length -1 as unlimited
        read += body.feed(part)
    if response.length:
        raise FetchFailed(shown, BROKEN_OFF)
    body.end()
    return Fetched(response.status, media_type, charset_of(content_type), bytes(read), hop.target.url)


def _meaning(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate can't be verified"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, IncompleteRead):
        return BROKEN_OFF
    if isinstance(error, OSError):
        return "the connection failed or broke"
    return "it does not answer as HTTP servers do"
