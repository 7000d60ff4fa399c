"""Which places may be asked: public ones over https, and those that the operator allows."""

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
    """Return where the URL points if its text breaks no rule; names have not been looked up. Raises FetchRefused."""
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


def looked_up(target: FetchTarget, allowed: Allowed, resolver: Resolver) -> tuple[Address, ...]:
    """Return the addresses to connect to, every one of which may be; the host is looked up once, here.

    Who reads the error can't tell a name of the private network from one that there is not.

    Raises:
        FetchRefused: the host has an address that is not public, or has none.
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
    may_be_asked = _may_be_asked_by_name if is_allowed else is_public
    if not addresses or len(addresses) < len(found) or not all(may_be_asked(address) for address in addresses):
        raise _not_public(target)
    return addresses


def system_resolver(host: str, port: int) -> list[str]:
    """Return the host's addresses as this machine looks them up. Raises OSError."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _may_be_asked_by_name(address: Address) -> bool:
    """Tell whether an allowed name may mean the address: credentials of this machine are had by allowing a number."""
    return not is_of_one_machine(address)


def _not_public(target: FetchTarget) -> FetchRefused:
    return FetchRefused(target.origin, f"it has no public address; {_how_to_allow(target)}")


def _how_to_allow(target: FetchTarget) -> str:
    host = target.authority.removesuffix(f":{target.port}")
    return f"the operator can allow it with TURNSTONE_FETCH_ALLOW={host}:{target.port}"
