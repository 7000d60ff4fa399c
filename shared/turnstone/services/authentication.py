"""Who sends a request, by the token in its `Authorization` header."""

import re
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Lock
from typing import Protocol

from turnstone.domain.caller import Caller
from turnstone.domain.errors import Unauthenticated
from turnstone.domain.identity import Identity
from turnstone.ports import Clock

SCHEME = "Bearer"
MOST_CACHED = 1_000
# Source: RFC 6750, section 2.1
_FORM = re.compile(r"bearer +([a-z0-9._~+/-]{1,16000}=*)", re.IGNORECASE | re.ASCII)


class Tokens(Protocol):
    """The tokens of one kind, such as API keys."""

    def identity(self, token: str) -> Identity:
        """Return whom the token names, which is any text without white space.

        Raises:
            Unauthenticated: it names nobody, or no longer.
            StoreUnavailable, IssuerUnavailable: that can't be found out now.
        """


class Authenticator:
    """Knows callers by their tokens, for some time also without asking again. Keeps hashes of tokens, never tokens."""

    def __init__(self, tokens: Tokens, clock: Clock, cached_for: timedelta) -> None:
        """Take the kind of tokens, and for how long one may be good for a caller after it was taken back."""
        self._tokens = tokens
        self._clock = clock
        self._cached_for = cached_for
        self._cached: dict[bytes, tuple[Caller, datetime]] = {}
        self._caching = Lock()

    def known(self, authorization: str | None) -> Caller | None:
        """Return whom the header names if that was asked a moment ago. Never waits. Raises Unauthenticated."""
        cached = self._cached.get(_digest(_token_in(authorization)))
        return cached[0] if cached is not None and self._clock.now() < cached[1] else None

    def identify(self, authorization: str | None) -> Caller:
        """Return whom the header names.

        Raises:
            Unauthenticated: nobody, or it is no header of this kind.
            StoreUnavailable, IssuerUnavailable: that can't be found out now.
        """
        caller = self.known(authorization)
        return self._asked(_token_in(authorization)) if caller is None else caller

    def _asked(self, token: str) -> Caller:
        now = self._clock.now()
        try:
            identity = self._tokens.identity(token)
        except Unauthenticated:
            raise Unauthenticated(SCHEME) from None
        until = now + self._cached_for
        if identity.valid_until is not None:
            until = min(until, identity.valid_until)
        if now < until:
            self._cache(_digest(token), identity.caller, until)
        return identity.caller

    def _cache(self, digest: bytes, caller: Caller, until: datetime) -> None:
        with self._caching:
            self._cached.pop(digest, None)
            while len(self._cached) >= MOST_CACHED:
                del self._cached[next(iter(self._cached))]  # the one cached first
            self._cached[digest] = caller, until


def _token_in(authorization: str | None) -> str:
    found = _FORM.fullmatch((authorization or "").strip(" \t"))
    if found is None:
        raise Unauthenticated(SCHEME)
    return found[1]


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
