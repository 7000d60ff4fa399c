"""The providers of memory banks in the operator's file, each made at its first use, behind one circuit breaker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from turnstone.adapters.outgoing.breaker import CircuitBreaker
from turnstone.adapters.vectors.guarded import GuardedProvider
from turnstone.domain.errors import MemoryProviderMissing, Unsupported
from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, BankKind
from turnstone.ports.memory_providers import BankProvider

Make = Callable[[], BankProvider]
# Source: the stores inside of a Llama Stack server, which applications name in their set-up: any store is as good
INSIDE_THE_PEER = frozenset({"faiss", "meta-reference", "sqlite-vec"})


class ConfiguredProviders:
    """BankProviders of a file."""

    def __init__(self, providers: Mapping[str, Make | None], defaults: Mapping[BankKind, str]) -> None:
        """Take a factory for each provider, None for one that is this server's own store, and those of kinds."""
        self._providers = providers
        self._defaults = defaults
        self._breaker = CircuitBreaker()
        self._lock = Lock()
        self._made: dict[str, GuardedProvider] = {}

    def chosen(self, kind: BankKind, named: str | None) -> str:
        if named == EMBEDDED_PROVIDER or (named is not None and named in self._providers):
            return named
        if named is None or named in INSIDE_THE_PEER:
            return self._defaults.get(kind, EMBEDDED_PROVIDER)
        names = ", ".join([EMBEDDED_PROVIDER, *sorted(self._providers)])
        raise Unsupported(f"provider_id: this server has no provider {named!r}; it has: {names}", ("provider_id",))

    def is_own(self, provider_id: str) -> bool:
        if provider_id == EMBEDDED_PROVIDER:
            return True
        return provider_id in self._providers and self._providers[provider_id] is None

    def of(self, provider_id: str) -> BankProvider:
        make = self._providers.get(provider_id)
        if make is None:
            problem = "the operator's file does not have it any more, and the bank's content is there; restore it"
            raise MemoryProviderMissing(provider_id, problem)
        with self._lock:
            if provider_id not in self._made:
                self._made[provider_id] = GuardedProvider(provider_id, make(), self._breaker)
            return self._made[provider_id]

    def close(self) -> None:
        with self._lock:
            made = list(self._made.values())
        for provider in made:
            provider.close()
