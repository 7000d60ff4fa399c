"""The caller of a request, identified by the token in its `Authorization` header."""

import re
from datetime import timedelta
from hashlib import sha256
from threading import Lock
from typing import NamedTuple, Protocol

from turnstone.domain.access.caller import Caller
from turnstone.domain.access.identity import Identity
from turnstone.domain.errors import Unauthenticated
from turnstone.domain.values.moments import Moment
from turnstone.ports.system import Clock

SCHEME = "Bearer"
MOST_CACHED = 1_000
# Source: RFC 6750, section 2.1
_FORM = re.compile(r"bearer +([a-z0-9._~+/-]{1,16000}=*)", re.IGNORECASE | re.ASCII)


class TokenVerifier(Protocol):
    """The tokens of one kind, such as API keys."""

    def identity(self, token: str) -> Identity:
        """Return the identity of the token, which is any text without white space.

        Raises:
            Unauthenticated: it has no identity, or no longer.
            StoreUnavailable, IssuerUnavailable: it can't be verified now.
        """


class _Cached(NamedTuple):
    identity: Identity
    verified_at: Moment


class Authenticator:
    """Identifies callers by their tokens, with a cache. Keeps hashes of tokens, never tokens."""

    def __init__(self, tokens: TokenVerifier, clock: Clock, cached_for: timedelta) -> None:
        """Verify by `tokens`; a revoked token may be accepted for as long as `cached_for`."""
        self._tokens = tokens
        self._clock = clock
        self._cached_for = cached_for
        self._cached: dict[bytes, _Cached] = {}
        self._caching = Lock()

    def cached_caller(self, authorization: str | None) -> Caller | None:
        """Return the caller of the header if cached. Never waits. Raises Unauthenticated."""
        cached = self._cached.get(_digest(_token_in(authorization)))
        if cached is None:
            return None
        now = self._now()
        until = cached.identity.valid_until
        is_good = cached.verified_at.is_within(self._cached_for, now) and (until is None or now.at < until)
        return cached.identity.caller if is_good else None

    def identify(self, authorization: str | None) -> Caller:
        """Return the caller of the header.

        Raises:
            Unauthenticated: the token has no caller, or the header is not of this kind.
            StoreUnavailable, IssuerUnavailable: the token can't be verified now.
        """
        caller = self.cached_caller(authorization)
        return self._verified(_token_in(authorization)) if caller is None else caller

    def _verified(self, token: str) -> Caller:
        verified_at = self._now()  # before the call, which may take long
        try:
            identity = self._tokens.identity(token)
        except Unauthenticated:
            raise Unauthenticated(SCHEME) from None
        if self._cached_for > timedelta(0):
            self._cache(_digest(token), _Cached(identity, verified_at))
        return identity.caller

    def _now(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic_s())

    def _cache(self, digest: bytes, answer: _Cached) -> None:
        with self._caching:
            self._cached.pop(digest, None)
            while len(self._cached) >= MOST_CACHED:
                del self._cached[next(iter(self._cached))]  # the one cached first
            self._cached[digest] = answer


def _token_in(authorization: str | None) -> str:
    found = _FORM.fullmatch((authorization or "").strip(" \t"))
    if found is None:
        raise Unauthenticated(SCHEME)
    return found[1]


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
