"""Permitted targets: public hosts over https, and hosts the operator allows."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from turnstone.adapters.fetching.addresses import Address, is_of_one_machine, is_public, to_address
from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.fetching.targets import FetchTarget, to_target
from turnstone.domain.errors import FetchFailed, FetchRefused

FIRST_FREE_PORT = 1_024
HTTPS_PORT = 443

Resolver = Callable[[str, int], Sequence[str]]


def checked(url: str, allowed: Allowed, params: Mapping[str, str | Sequence[str]] | None = None) -> FetchTarget:
    """Return the URL's target if its text breaks no rule; without name resolution. Raises FetchRefused."""
    target = to_target(url, params)
    if allowed.has(target):
        return target
    if target.scheme != "https":
        raise FetchRefused(target.origin, f"it is not https; {_how_to_allow(target)}")
    if target.port != HTTPS_PORT and target.port < FIRST_FREE_PORT:
        raise FetchRefused(target.origin, f"its port is that of another service; {_how_to_allow(target)}")
    if not isinstance(target.host, str) and not is_public(target.host):
        raise _not_public(target)
    return target


def resolve_host(target: FetchTarget, allowed: Allowed, resolver: Resolver) -> tuple[Address, ...]:
    """Return the addresses to connect to, all of them allowed; the only lookup of the host.

    The error does not reveal whether a private name exists.

    Raises:
        FetchRefused: the host has a private address, or none.
    """
    if not isinstance(target.host, str):
        return (target.host,)
    try:
        found = [to_address(text) for text in resolver(target.host, target.port)]
    except (OSError, UnicodeError):
        found = []
    addresses = tuple(address for address in found if address is not None)
    is_allowed = allowed.has(target)
    if is_allowed and not addresses:
        raise FetchFailed(target.origin, "its name has no address")
    is_allowed_address = _is_allowed_by_name if is_allowed else is_public
    if not addresses or len(addresses) < len(found) or not all(is_allowed_address(address) for address in addresses):
        raise _not_public(target)
    return addresses


def system_resolver(host: str, port: int) -> list[str]:
    """Return the host's addresses from this machine's resolver. Raises OSError."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _is_allowed_by_name(address: Address) -> bool:
    """Return whether an allowed name may resolve to the address: the machine's metadata must be allowed by number."""
    return not is_of_one_machine(address)


def _not_public(target: FetchTarget) -> FetchRefused:
    return FetchRefused(target.origin, f"it has no public address; {_how_to_allow(target)}")


def _how_to_allow(target: FetchTarget) -> str:
    host = target.authority.removesuffix(f":{target.port}")
    return f"the operator can allow it with TURNSTONE_FETCH_ALLOW={host}:{target.port}"
