"""Request headers: the permitted ones of the caller, and the fetcher's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from turnstone.adapters.fetching.targets import FetchTarget
from turnstone.domain.errors import FetchRefused

NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
MAX_CHARACTERS = 32_000
# framing, routing and encoding, which two readers must not interpret differently
NOT_THE_CALLERS = frozenset(
    (
        "host",
        "content-length",
        "transfer-encoding",
        "accept-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "proxy-authorization",
        "proxy-connection",
    )
)


def callers_headers(given: Mapping[str, str], target: FetchTarget) -> dict[str, str]:
    """Return the caller's headers with names in lower case. Raises FetchRefused for headers that cannot be sent."""
    if sum(len(name) + len(value) for name, value in given.items()) > MAX_CHARACTERS:
        raise FetchRefused(target.origin, f"its headers are longer than {MAX_CHARACTERS} characters")
    for name, value in given.items():
        if not NAME.fullmatch(name):
            raise FetchRefused(target.origin, "one of its headers has an invalid name")
        if name.lower() in NOT_THE_CALLERS:
            raise FetchRefused(target.origin, f"the header {name} is for the server to set; leave it out")
        if not VALUE.fullmatch(value):
            raise FetchRefused(target.origin, f"its header {name} holds characters that headers don't")
    return {name.lower(): value.strip() for name, value in given.items()}


def headers_to_send(target: FetchTarget, callers: Mapping[str, str], accepts: Sequence[str] | None) -> dict[str, str]:
    """Return all headers except the body's length."""
    usual = {"user-agent": "turnstone", "accept": ", ".join(accepts) if accepts else "*/*"}
    fixed = {"host": target.authority, "accept-encoding": "identity", "connection": "close"}
    return {**fixed, **usual, **callers}
