"""Requests to webhooks, whose URLs callers choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class WebhookSender(Protocol):
    """Sends requests to public hosts over https, and to hosts that the operator allows."""

    def check(self, url: str) -> None:
        """Return if the text of the URL breaks no rule. Raises FetchRefused, which names the rule."""

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post the body once, following no redirect, and return the status of the answer.

        Raises:
            FetchRefused: a rule forbids the URL or its host's address, or the answer is a redirect.
            FetchFailed: no complete answer came in time.
        """

    @property
    def is_stopped(self) -> bool:
        """Whether this process ends, so that requests fail for that reason alone."""
