"""Normalise the host of a URL to its one canonical spelling."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

from turnstone.adapters.fetching.addresses import Address, to_address

MAX_HOST_CHARACTERS = 253  # of a DNS name
NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
BRACKETED = re.compile(r"\[([0-9a-f:.]{2,45})\]")


class BadHost(ValueError):
    """Not a valid host, or a spelling used only for tricks; the message names the broken rule."""


def to_host(text: str) -> str | Address:
    """Return the name in lower-case ASCII, or the address in canonical form. Raises BadHost."""
    if not text or len(text) > MAX_HOST_CHARACTERS + 1:
        raise BadHost("it names no host" if not text else "its host is too long")
    host = text.lower() if text.isascii() else _ascii(text)
    if host.startswith("["):
        return _bracketed(host)
    host = host.removesuffix(".")
    if not NAME.fullmatch(host):
        raise BadHost("its host is not a valid name or address")
    if NUMBER.fullmatch(host.rpartition(".")[2]):
        return _number(host)
    return host


def _ascii(text: str) -> str:
    """Return the name in its DNS form, with look-alike characters normalised."""
    import idna  # takes 5 ms; only for names in other scripts

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii").lower()
    except UnicodeError as error:
        raise BadHost("its host is not a valid name") from error


def _bracketed(host: str) -> IPv6Address:
    found = BRACKETED.fullmatch(host)
    address = to_address(found[1]) if found else None
    if not isinstance(address, IPv6Address):
        raise BadHost("its brackets must hold an IPv6 address")
    return address


def _number(host: str) -> IPv4Address:
    """Return the address of one to four numbers, decimal, octal or hexadecimal; the last one fills the remaining bytes.

    Source: inet_aton(3), and the URL standard's parser of IPv4 hosts.
    """
    parts = host.split(".")
    try:
        numbers = [int(part, _number_system(part)) for part in parts]
    except ValueError as error:
        raise BadHost("its host looks like an address, but is not a valid one") from error
    *first, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in first) or last >= 256 ** (5 - len(numbers)):
        raise BadHost("its host looks like an address, but is not a valid one")
    return IPv4Address(sum(number << 8 * (3 - position) for position, number in enumerate(first)) + last)


def _number_system(part: str) -> int:
    if not NUMBER.fullmatch(part):
        raise ValueError(part)
    if part.startswith("0x"):
        return 16
    return 8 if len(part) > 1 and part.startswith("0") else 10
