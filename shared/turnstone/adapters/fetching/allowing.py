"""The operator's allow list of hosts and ports that are not public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from turnstone.adapters.fetching.addresses import Address
from turnstone.adapters.fetching.hosts import to_host
from turnstone.adapters.fetching.targets import FetchTarget, to_target


@dataclass(frozen=True, slots=True)
class Allowed:
    """Private hosts that may be fetched, by http, too. A host is allowed only together with a port.

    An allowed name covers only that name: another name of the same machine is refused, so owning a name gains nothing.
    """

    endpoints: frozenset[tuple[str | Address, int]] = frozenset()

    @classmethod
    def of(cls, endpoints: Iterable[tuple[str, int]]) -> Self:
        """Return the rules of `host:port` texts, IPv6 in brackets. Raises ValueError for an invalid host."""
        return cls(frozenset((to_host(host), port) for host, port in endpoints))

    def with_url(self, url: str) -> Self:
        """Return these rules plus the host and port of an operator's URL. Raises FetchRefused for an invalid URL."""
        target = to_target(url)
        return type(self)(self.endpoints | {(target.host, target.port)})

    def has(self, target: FetchTarget) -> bool:
        return (target.host, target.port) in self.endpoints


NOTHING_ALLOWED = Allowed()
