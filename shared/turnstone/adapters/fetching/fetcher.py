"""Fetches what URLs name that agents, documents, tool definitions or models have a hand in."""

from __future__ import annotations

import ssl

from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED, Allowed
from turnstone.adapters.fetching.exchange import Fetched, FetchRequest
from turnstone.adapters.fetching.rules import Resolver, system_resolver


class GuardedFetcher:
    """Asks public places over https, and what the operator allows, past the environment's proxies."""

    def __init__(
        self,
        allowed: Allowed = NOTHING_ALLOWED,
        resolver: Resolver = system_resolver,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._tls = tls

    def fetch(self, request: FetchRequest) -> Fetched:
        """Return the whole answer, of whatever status.

        Raises:
            FetchRefused: this URL, or one it redirects to, is not fetched; nobody there was asked.
            FetchFailed: nothing came of it in time that can be used.
        """
        raise NotImplementedError
