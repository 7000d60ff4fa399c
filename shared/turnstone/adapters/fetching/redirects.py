"""Redirects: the next hop, and the parts of a request that may be repeated there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.fetching.rules import checked
from turnstone.adapters.fetching.targets import FetchTarget
from turnstone.domain.errors import FetchRefused

REDIRECTS = (301, 302, 303, 307, 308)
SAME_AGAIN = (307, 308)
READING = ("GET", "HEAD")
NOT_ASCII = range(0x80, 0x100)


@dataclass(frozen=True, slots=True)
class Hop:
    """One request of a redirect chain."""

    method: str
    target: FetchTarget
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)


def next_hop(hop: Hop, status: int, location: str | None, allowed: Allowed) -> Hop | None:
    """Return the next hop, None unless the response is a redirect.

    Raises:
        FetchRefused: the target is not allowed, or must not receive this request's data.
    """
    if status not in REDIRECTS or not location:
        return None
    target = checked(_joined(hop.target, location), allowed)
    is_same = target.origin == hop.target.origin
    if hop.target.scheme == "https" and target.scheme != "https":
        raise FetchRefused(hop.target.origin, "it redirects from https to http")
    only_reads = hop.method in READING and hop.body is None
    if not only_reads and not (is_same and status in SAME_AGAIN):
        raise FetchRefused(hop.target.origin, "it redirects a request that may change something; use the final URL")
    return replace(hop, target=target, headers=hop.headers if is_same else {})


def _joined(target: FetchTarget, location: str) -> str:
    """Return the location as an absolute URL; non-ASCII bytes arrive as Latin-1 characters."""
    ascii_only = "".join(f"%{ord(char):02X}" if ord(char) in NOT_ASCII else char for char in location)
    if any(char in ascii_only for char in "\t\r\n\\"):  # urljoin would remove some of them silently
        raise FetchRefused(target.origin, "it redirects to an invalid URL")
    try:
        return urljoin(target.url, ascii_only)
    except ValueError as error:
        raise FetchRefused(target.origin, "it redirects to an invalid URL") from error
