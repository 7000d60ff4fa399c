"""Texts of a request's documents at addresses, fetched by the guarded fetcher within one limit of time and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from turnstone.adapters.fetching.messages import FetchRequest
from turnstone.domain.errors import FetchFailed, InvalidRequest

if TYPE_CHECKING:
    from turnstone.adapters.fetching.messages import Fetched
    from turnstone.domain.turns.turn_settings import TurnDocument

FETCHED_S = 20.0  # for all documents of a request
FETCHED_BYTES = 8 * 1024 * 1024
ACCEPTED = (
    "text/*",
    "application/json",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/octet-stream",
)


class Fetches(Protocol):
    def fetch(self, request: FetchRequest) -> Fetched:
        """Return the response, of any status. Raises FetchFailed."""


class DocumentTexts:
    def __init__(self, fetcher: Fetches, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._monotonic_s = monotonic_s

    def fetched(self, given: Mapping[str, Sequence[TurnDocument]]) -> dict[str, tuple[TurnDocument, ...]]:
        """Return the documents of each field with the texts at their addresses.

        Raises:
            InvalidRequest: an address is forbidden or has no text, or the texts take too long or are too large.
        """
        ends_at, left_bytes = self._monotonic_s() + FETCHED_S, FETCHED_BYTES
        found: dict[str, tuple[TurnDocument, ...]] = {}
        for field, documents in given.items():
            complete = []
            for index, document in enumerate(documents):
                if document.address is not None:
                    text = self._text_at(document.address, (field, index), ends_at, left_bytes)
                    left_bytes -= len(text)
                    document = document.model_copy(update={"content": text, "address": None})
                complete.append(document)
            found[field] = tuple(complete)
        return found

    def _text_at(self, address: str, document: tuple[str, int], ends_at: float, most_bytes: int) -> str:
        left_s = ends_at - self._monotonic_s()
        if left_s <= 0 or most_bytes <= 0:
            limits = f"{FETCHED_S:g} s and {FETCHED_BYTES} bytes"
            raise _wrong(document, f"the documents of a request are fetched within {limits} in all")
        request = FetchRequest("GET", address, timeout_s=left_s, max_bytes=most_bytes, accepts=ACCEPTED)
        try:
            fetched = self._fetcher.fetch(request)
        except FetchFailed as problem:
            raise _wrong(document, str(problem)) from problem
        if fetched.status != 200:
            raise _wrong(document, f"its server answers HTTP {fetched.status}")
        return fetched.text


def _wrong(document: tuple[str, int], why: str) -> InvalidRequest:
    field, index = document
    return InvalidRequest(f"{field}.{index}.content: {why}", (field, index, "content"))
