"""Parse a URL strictly: refuse every form that two parsers could read differently."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urlencode

from turnstone.adapters.fetching.addresses import Address
from turnstone.adapters.fetching.hosts import BadHost, to_host
from turnstone.domain.errors import FetchRefused

MAX_URL_CHARACTERS = 8_000
MAX_SENT_CHARACTERS = 32_000  # parameters included, with three characters for each non-ASCII byte
PORTS = {"https": 443, "http": 80}
PARTS = re.compile(r"(?s)([A-Za-z][A-Za-z0-9+.-]*):(//)?([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?")
AUTHORITY = re.compile(r"(?s)(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
UNSPEAKABLE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
IN_PATHS = "/%:@!$&'()*+,;=~-._[]|^`{}\""  # sent unchanged
SOME_URL = "this URL"
NO_CHARACTERS = "it holds characters that there aren't"


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """Scheme, host, port and path of a request.

    Attributes:
        host: an ASCII name, or an address.
        request_target: path and query, as in a request line.
    """

    scheme: str
    host: str | Address
    port: int
    request_target: str

    @property
    def origin(self) -> str:
        """Scheme, host and port; free of credentials, paths and queries, so any error may show it."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as in the `Host` header."""
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return self.origin + self.request_target


def to_target(url: str, params: Mapping[str, str | Sequence[str]] | None = None) -> FetchTarget:
    """Return the URL's target, with further query parameters. Raises FetchRefused."""
    if len(url) > MAX_URL_CHARACTERS:
        raise FetchRefused(SOME_URL, f"it is longer than {MAX_URL_CHARACTERS} characters")
    if UNSPEAKABLE.search(url):
        raise FetchRefused(SOME_URL, "it holds spaces, control characters or backslashes, which URLs don't")
    found = PARTS.fullmatch(url)
    if found is None:
        raise FetchRefused(SOME_URL, "it does not begin with https:// and a host")
    scheme, slashes, authority, path, query = found.groups(default="")
    scheme = scheme.lower()
    if scheme not in PORTS or not slashes:
        raise FetchRefused(SOME_URL, "it does not begin with https:// and a host")
    host, port = _host_and_port(authority, PORTS[scheme])
    whole_query = "&".join(part for part in (_quoted(query, "?"), _encoded(params or {})) if part)
    request_target = (_quoted(path) or "/") + (f"?{whole_query}" if whole_query else "")
    if len(request_target) > MAX_SENT_CHARACTERS:
        raise FetchRefused(SOME_URL, f"it is longer than {MAX_SENT_CHARACTERS} characters with its query")
    return FetchTarget(scheme, host, port, request_target)


def _host_and_port(authority: str, usual_port: int) -> tuple[str | Address, int]:
    if "@" in authority:
        raise FetchRefused(SOME_URL, "it holds a user's name or password; send those in headers")
    found = AUTHORITY.fullmatch(authority)
    if found is None:
        raise FetchRefused(SOME_URL, "it has no host, or an invalid port")
    port = usual_port if found[2] is None else int(found[2])
    if not 0 < port < 65_536:
        raise FetchRefused(SOME_URL, "it has an invalid port")
    try:
        return to_host(found[1]), port
    except BadHost as problem:
        raise FetchRefused(SOME_URL, str(problem)) from problem


def _encoded(params: Mapping[str, str | Sequence[str]]) -> str:
    try:
        return urlencode(params, doseq=True)
    except UnicodeEncodeError as error:
        raise FetchRefused(SOME_URL, NO_CHARACTERS) from error


def _quoted(text: str, more: str = "") -> str:
    """Return the text for a request line: non-ASCII characters as percent-encoded UTF-8."""
    try:
        return quote(text, safe=IN_PATHS + more)
    except UnicodeEncodeError as error:  # a lone surrogate
        raise FetchRefused(SOME_URL, NO_CHARACTERS) from error
