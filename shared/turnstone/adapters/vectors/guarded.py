"""A provider of memory banks behind a circuit breaker: while it is down, requests fail at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from turnstone.adapters.outgoing.breaker import REST_S, CircuitBreaker
from turnstone.domain.errors import MemoryProviderError, MemoryProviderFailed
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter
from turnstone.ports.memory_providers import BankProvider, Insertion, InsertionRef, ProviderHit, ProviderQuestion

log = logging.getLogger(__name__)
Result = TypeVar("Result")
RESTING = f"it failed several times in a row, and is called again within {REST_S:g} s"


class GuardedProvider:
    """BankProvider that passes each call on, or refuses it while the breaker is open."""

    def __init__(self, provider_id: str, provider: BankProvider, breaker: CircuitBreaker) -> None:
        self._provider_id = provider_id
        self._provider = provider
        self._breaker = breaker

    @property
    def most_hits(self) -> int:
        return self._provider.most_hits

    def refuse_bank(self, bank: Bank) -> None:
        self._provider.refuse_bank(bank)

    def refuse_filters(self, filters: Filter) -> None:
        self._provider.refuse_filters(filters)

    def refuse_insertion(self, insertion: Insertion) -> None:
        self._provider.refuse_insertion(insertion)

    def create(self, ref: BankRef, dimension: int) -> None:
        self._called(lambda: self._provider.create(ref, dimension))

    def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
        self._called(lambda: self._provider.put(ref, insertions))

    def drop(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> None:
        self._called(lambda: self._provider.drop(ref, insertions))

    def search(self, ref: BankRef, question: ProviderQuestion) -> list[ProviderHit]:
        return self._called(lambda: self._provider.search(ref, question))

    def chunks(self, ref: BankRef, insertion: InsertionRef) -> tuple[DocumentChunk, ...]:
        return self._called(lambda: self._provider.chunks(ref, insertion))

    def remove(self, ref: BankRef) -> None:
        self._called(lambda: self._provider.remove(ref))

    def check(self) -> str:
        return self._provider.check()  # an operator needs the reason itself

    def close(self) -> None:
        self._provider.close()

    def _called(self, call: Callable[[], Result]) -> Result:
        if not self._breaker.allows_request(self._provider_id):
            raise MemoryProviderFailed(self._provider_id, RESTING, is_outage=True)
        try:
            result = call()
        except MemoryProviderError as error:
            if error.is_outage and self._breaker.failed(self._provider_id):
                log.warning("memory provider %r fails; calls are refused for %g s", self._provider_id, REST_S)
            raise
        if self._breaker.answered(self._provider_id):
            log.info("memory provider %r answers again", self._provider_id)
        return result
