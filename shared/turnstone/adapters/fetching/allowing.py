"""The hosts and ports that an operator has fetched from although they are not public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from turnstone.adapters.fetching.addresses import Address
from turnstone.adapters.fetching.hosts import to_host
from turnstone.adapters.fetching.targets import FetchTarget, to_target


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be reached although it is private, by http, too. A host is only ever allowed together with a port.

    A name is allowed as the name: another one for the same machine is not, so that whoever owns names gains nothing.
    """

    places: frozenset[tuple[str | Address, int]] = frozenset()

    @classmethod
    def of(cls, places: Iterable[tuple[str, int]]) -> Self:
        """Return what the operator's hosts, IPv6 ones in brackets, and ports allow. Raises ValueError: no host."""
        return cls(frozenset((to_host(host), port) for host, port in places))

    def with_url(self, url: str) -> Self:
        """Return this and the place of a URL that the operator has set. Raises FetchRefused: it is none."""
        target = to_target(url)
        return type(self)(self.places | {(target.host, target.port)})

    def has(self, target: FetchTarget) -> bool:
        return (target.host, target.port) in self.places


NOTHING_ALLOWED = Allowed()
