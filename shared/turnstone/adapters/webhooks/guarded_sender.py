"""Requests to webhooks by the fetcher of tools, with its rules against requests to private hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from turnstone.domain.values.cancellation import StopSignal

if TYPE_CHECKING:  # the fetcher loads TLS: only where something is sent
    from turnstone.adapters.fetching.fetcher import GuardedFetcher

TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 1024 * 1024


class GuardedSender:
    """Posts to a webhook within 15 seconds, answer included; nothing of the answer but its status is used."""

    def __init__(self, allowed: Iterable[tuple[str, int]], timeout_s: float = TIMEOUT_S) -> None:
        """Take the private hosts and ports that may be reached, by http, too."""
        self._endpoints = tuple(allowed)
        self._timeout_s = timeout_s
        self._stop = StopSignal()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set

    def stop(self) -> None:
        """End the requests that are under way."""
        self._stop.set()

    def check(self, url: str) -> None:
        """Return if the text of the URL breaks no rule. Raises FetchRefused."""
        from turnstone.adapters.fetching.allowing import Allowed
        from turnstone.adapters.fetching.rules import checked

        checked(url, Allowed.of(self._endpoints))

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post the body and return the status. Raises FetchRefused, FetchFailed."""
        from turnstone.adapters.fetching.messages import FetchRequest

        request = FetchRequest(
            "POST",
            url,
            headers,
            body=body,
            timeout_s=self._timeout_s,
            max_bytes=MAX_ANSWER_BYTES,
            max_redirects=0,
            stop=self._stop,
        )
        return self._fetcher.fetch(request).status

    @cached_property
    def _fetcher(self) -> GuardedFetcher:
        from turnstone.adapters.fetching.allowing import Allowed
        from turnstone.adapters.fetching.fetcher import GuardedFetcher

        return GuardedFetcher(Allowed.of(self._endpoints))
