"""The receiver of events, as a port that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from turnstone.domain.errors import FetchFailed, FetchRefused

Answer = int | FetchFailed


class Received(NamedTuple):
    """A request to a webhook."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(self.body)
        return event


class ScriptedReceiver:
    """Answers with these statuses or failures in order, and 204 afterwards; refuses hosts that are named private."""

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.answers = list(answers)
        self.received: list[Received] = []
        self.on_request: Callable[[], object] = lambda: None
        self.is_stopped = False

    def check(self, url: str) -> None:
        if not url.startswith("https://") or "private" in url:
            raise FetchRefused(url, "it is not public")

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        self.check(url)
        self.received.append(Received(url, dict(headers), body))
        self.on_request()
        answer = self.answers.pop(0) if self.answers else 204
        if isinstance(answer, FetchFailed):
            raise answer
        return answer

    @property
    def types(self) -> list[str]:
        """The types of the events, in the order of their requests."""
        return [request.event["type"] for request in self.received]
