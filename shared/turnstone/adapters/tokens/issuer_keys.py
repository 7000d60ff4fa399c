"""Public keys of a token issuer, fetched from its address and cached."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from turnstone.domain.errors import IssuerUnavailable

KEPT_S = 600.0
FETCHED_EVERY_S = 30.0
TIMEOUT = Timeout(connect=3.0, read=5.0)
WHOLE_FETCH_S = 8.0
MAX_BYTES = 512 * 1024
READ_BYTES = 64 * 1024

Jwk = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Held:
    keys: Mapping[str, Jwk] = field(default_factory=dict)
    until: float = 0.0


class IssuerKeys:
    """An issuer's keys by id. An unrecognised id triggers a new fetch: the issuer may have a new key.

    Fetches every FETCHED_EVERY_S at most, whatever ids clients make up and however the issuer fares.
    """

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._monotonic = monotonic
        self._pool = PoolManager(maxsize=1, block=False)
        self._fetching = Lock()
        self._held = _Held()
        self._fetched_at: float | None = None
        self._problem: str | None = None

    def key(self, key_id: str) -> Jwk | None:
        """Return the key of that id, None if the issuer has none. Raises IssuerUnavailable if the fetch fails."""
        held = self._held
        if key_id not in held.keys or self._monotonic() >= held.until:
            held = self._refreshed(key_id)
        return held.keys.get(key_id)

    def _refreshed(self, key_id: str) -> _Held:
        with self._fetching:
            now = self._monotonic()
            if now < self._held.until and key_id in self._held.keys:
                return self._held  # another thread fetched it during the wait
            if self._fetched_at is None or now - self._fetched_at >= FETCHED_EVERY_S:
                self._fetched_at = now
                self._problem = "the issuer's keys can't be fetched"
                try:
                    self._held = _Held(_by_id(self._fetched()), now + KEPT_S)
                except IssuerUnavailable as problem:
                    self._problem = str(problem)  # every caller before the next fetch gets the same answer
                    raise
                self._problem = None
            if self._problem is not None:
                raise IssuerUnavailable(self._problem)
            return self._held

    def _fetched(self) -> bytes:
        """Return the complete body from the address: no redirect, no compression."""
        deadline = time.monotonic() + WHOLE_FETCH_S
        headers = {"accept": "application/json", "user-agent": "turnstone"}
        try:
            response = self._pool.request(
                "GET", self._url, headers=headers, timeout=TIMEOUT, retries=False, redirect=False, preload_content=False
            )
            body = bytearray()
            try:
                while part := response.read1(READ_BYTES, decode_content=False):
                    body += part
                    if len(body) > MAX_BYTES or time.monotonic() > deadline:
                        raise IssuerUnavailable(
                            "the issuer's keys can't be fetched: the answer is too large or too slow"
                        )
            finally:
                response.close()
        except (HTTPError, OSError) as error:
            raise IssuerUnavailable(f"the issuer's keys can't be fetched: {type(error).__name__}") from error
        if response.status != 200:
            raise IssuerUnavailable(f"the issuer's keys can't be fetched: status {response.status}")
        return bytes(body)


def _by_id(body: bytes) -> dict[str, Jwk]:
    """Return the signing keys by id. Raises IssuerUnavailable unless the body is a key set."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise IssuerUnavailable("the issuer's keys can't be used: they are not JSON") from error
    keys = parsed.get("keys") if isinstance(parsed, dict) else None
    if not isinstance(keys, list):
        raise IssuerUnavailable("the issuer's keys can't be used: they are not a JSON Web Key Set")
    usable = [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"]
    return {key["kid"]: key for key in usable if isinstance(key.get("kid"), str)}
