"""Fetches what URLs name that agents, documents, tool definitions or models have a hand in."""

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
from turnstone.adapters.fetching.redirects import Hop, next_hop
from turnstone.adapters.fetching.rules import Resolver, checked, looked_up, system_resolver
from turnstone.domain.errors import FetchFailed, FetchRefused

READ_BYTES = 64 * 1024
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
UNTOLD = "of no type"
BROKEN_OFF = "its answer broke off"
WITH_BODY = ("POST", "PUT", "PATCH")


class GuardedFetcher:
    """Asks public places over https, and what the operator allows, past the environment's proxies."""

    def __init__(
        self,
        allowed: Allowed = NOTHING_ALLOWED,
        resolver: Resolver = system_resolver,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            resolver: what looks names up.
            tls: whose certificates are trusted; this machine's trust where it is left out.
        """
        self._allowed = allowed
        self._resolver = resolver
        self._given_tls = tls

    def fetch(self, request: FetchRequest) -> Fetched:
        """Return the whole answer, of whatever status.

        Raises:
            FetchRefused: this URL, or one it redirects to, is not fetched; nobody there was asked.
            FetchFailed: nothing came of it in time that can be used.
        """
        hop = self._first_hop(request)
        with Deadline(request.timeout_s, request.stop) as asking:
            for _ in range(request.max_redirects + 1):
                answer = self._asked(hop, request, asking)
                if isinstance(answer, Fetched):
                    return answer
                hop = answer
        raise FetchRefused(hop.target.origin, f"it redirects more than {request.max_redirects} times")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        if self._given_tls is not None:
            return self._given_tls
        tls = ssl.create_default_context()
        tls.set_alpn_protocols(["http/1.1"])
        return tls

    def _first_hop(self, request: FetchRequest) -> Hop:
        target = checked(request.url, self._allowed, request.params)
        if request.method not in METHODS:
            raise FetchRefused(target.origin, f"the methods are {', '.join(METHODS)}")
        return Hop(request.method, target, callers_headers(request.headers, target), request.body)

    def _asked(self, hop: Hop, request: FetchRequest, asking: Deadline) -> Fetched | Hop:
        """Return the answer, or what to ask instead. Raises FetchRefused, FetchFailed."""
        shown = hop.target.origin
        asking.left_s(shown)
        try:
            addresses = looked_up(hop.target, self._allowed, partial(asking.looked_up, self._resolver))
        except FetchFailed:
            asking.left_s(shown)  # no address is no news of a look-up that was ended
            raise
        tls = self._tls if hop.target.scheme == "https" else None
        try:
            with closing(PinnedConnection(hop.target, addresses, asking, tls)) as connection:
                _send(connection, hop, request)
                with closing(connection.getresponse()) as response:
                    onward = next_hop(hop, response.status, response.getheader("location"), self._allowed)
                    answer = onward or _read(response, hop, request)
        except (OSError, HTTPException, FetchFailed) as error:
            if asking.is_over and not isinstance(error, FetchRefused):
                raise asking.ended(shown) from error
            if isinstance(error, FetchFailed):
                raise
            raise FetchFailed(shown, _meaning(error)) from error
        asking.left_s(shown)  # a line that was cut looks like the end of a body that tells no length
        return answer


def _send(connection: PinnedConnection, hop: Hop, request: FetchRequest) -> None:
    connection.putrequest(hop.method, hop.target.request_target, skip_host=True, skip_accept_encoding=True)
    for name, value in headers_to_send(hop.target, hop.headers, request.accepts).items():
        connection.putheader(name, value)
    if hop.body is not None or hop.method in WITH_BODY:
        connection.putheader("content-length", str(len(hop.body or b"")))
    connection.endheaders(hop.body or None)


def _read(response: HTTPResponse, hop: Hop, request: FetchRequest) -> Fetched:
    """Return the answer with its body. Raises FetchFailed, OSError, HTTPException."""
    shown = hop.target.origin
    content_type = response.getheader("content-type")
    media_type = media_type_of(content_type)
    if response.status < 200:
        raise FetchFailed(shown, "it wants to switch from HTTP to another protocol")
    has_body = response.length != 0
    if has_body and response.status < 400 and not is_accepted(media_type, request.accepts):
        raise FetchFailed(shown, f"its answer is {media_type or UNTOLD}, not {' or '.join(request.accepts or ())}")
    body = Body(response.getheader("content-encoding"), request.max_bytes, shown)
    body.announce(response.length)
    read = bytearray()
    while part := response.read1(READ_BYTES):  # read() would take a chunk of length -1 for all that ever comes
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
