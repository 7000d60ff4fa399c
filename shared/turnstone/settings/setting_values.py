"""Parsers of settings values: JWT claims, JWKS URL, host:port lists, origins."""

import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
# both are compiled on demand: most functions never use them
HOST_PORT = rf"(\[[0-9a-f:.]+\]|{LABEL}(?:\.{LABEL})*):([0-9]{{1,5}})"
NUMBER = r"0x[0-9a-f]*|[0-9]+"
CALLER_FIELDS = ("tenant", "principal", "roles", "teams", "projects", "namespaces")
ORIGIN = r"(https?)://(\[[^\]]*\]|[^/?#@:\[\]]+)(?::([1-9][0-9]*))?"
OWN_PORTS = {"http": 80, "https": 443}  # of a scheme; browsers leave it out of an origin
SHOWN_CHARACTERS = 100
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def none_in(given: object) -> object:
    """Return None for the text `none`, which turns a limit off, and any other value unchanged."""
    return None if given == "none" else given


def without_end_slashes(given: object) -> object:
    """Return a URL without trailing slashes, and any other value unchanged."""
    return given.rstrip("/") if isinstance(given, str) else given


def upper_case(given: object) -> object:
    """Return a text in upper case, and any other value unchanged."""
    return given.upper() if isinstance(given, str) else given


def claims_in(given: object) -> dict[str, str]:
    """Return the claim of each field of the caller, from `field=claim` pairs."""
    pairs = [pair.strip().partition("=") for pair in given.split(",")] if isinstance(given, str) else []
    claims = {field: claim for field, _, claim in pairs if field in CALLER_FIELDS and claim}
    if not pairs or len(claims) != len(pairs):
        reason = f"must be field=claim pairs, parted by commas; the fields are {', '.join(CALLER_FIELDS)}, each once"
        raise PydanticCustomError("claims", reason)
    return {"principal": "sub", **claims}


def keys_url(url: str) -> str:
    """Return the URL if its answer cannot be changed in transit."""
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES)
        is_whole = bool(parts.hostname) and parts.username is None and url.isprintable() and " " not in url
    except ValueError:
        is_safe = is_whole = False
    if not (is_safe and is_whole):
        raise PydanticCustomError("keys_url", "must be a URL that begins with https:// (http:// on this machine only)")
    return url


def hosts_in(given: object) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of a list of `host:port` texts."""
    try:
        return tuple(host_port(each.strip()) for each in str(given).split(","))
    except ValueError as problem:
        reason = "must be host:port pairs, parted by commas, such as intranet.example:8443, 10.0.0.5:80 or [::1]:8080"
        raise PydanticCustomError("places", reason) from problem


def origins_in(given: object) -> tuple[str, ...]:
    """Return the exact origins of a list, in lower case as browsers send them."""
    origins = [each.strip().lower() for each in str(given).split(",")]
    wrong = next((each for each in origins if not _is_origin(each)), None)
    if wrong is not None:
        reason = (
            "must be exact origins as browsers send them, separated by commas, such as https://app.example or "
            "http://localhost:5173, without a path, a slash at the end, or the scheme's own port; {wrong} is none"
        )
        shown = "one that names a user" if "@" in wrong else ascii(wrong[:SHOWN_CHARACTERS])
        raise PydanticCustomError("origins", reason, {"wrong": shown})
    return tuple(dict.fromkeys(origins))


def _is_origin(text: str) -> bool:
    found = re.fullmatch(ORIGIN, text, re.ASCII)
    if found is None:
        return False
    scheme, host, port = found.groups()
    try:
        shortest = f"[{IPv6Address(host[1:-1])}]" if host.startswith("[") else host
        named, _ = host_port(f"{host}:{port or OWN_PORTS[scheme]}")
    except ValueError:
        return False
    return named == shortest and port != str(OWN_PORTS[scheme])


def host_port(text: str) -> tuple[str, int]:
    found = re.fullmatch(HOST_PORT, text, re.IGNORECASE | re.ASCII)
    if found is None or not 0 < int(found[2]) < 65_536:
        raise ValueError(text)
    host = found[1].lower()
    if host.startswith("["):
        IPv6Address(host[1:-1])
    elif re.fullmatch(NUMBER, host.rpartition(".")[2]):
        IPv4Address(host)
    return host, int(found[2])
