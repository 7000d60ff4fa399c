"""A provider of memory banks that is down is not called for half a minute; the double of providers keeps their laws.

Covers: adapters/vectors/guarded, adapters/outgoing/breaker, tests/fakes/memory/bank_provider.py
"""

from __future__ import annotations

import pytest

from tests.fakes.memory.bank_provider import BanksInMemory
from tests.support.stores.bank_provider_suite import (
    BankProviderConformance,
    axis,
    documents,
    inserted,
    question,
    unit,
)
from turnstone.adapters.outgoing.breaker import FAILURES, REST_S, CircuitBreaker
from turnstone.adapters.vectors.guarded import GuardedProvider
from turnstone.domain.errors import MemoryProviderFailed, MemoryProviderTimedOut
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.memory_providers import BankProvider

REF = BankRef("tenant", "content", "bank")


class TestDouble(BankProviderConformance):
    @pytest.fixture
    def provider(self) -> BankProvider:
        return GuardedProvider("elsewhere", BanksInMemory(), CircuitBreaker())

    def test_vectors_are_of_length_one(self) -> None:
        assert unit([3.0, 4.0]) == [0.6, 0.8]


class Failing:
    """The times of a clock, and the calls that reached a provider whose outage can be ended."""

    def __init__(self, error: Exception) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.error: Exception | None = error
        inner = BanksInMemory()
        inner.before = self._called
        self.guarded = GuardedProvider("elsewhere", inner, CircuitBreaker(lambda: self.now))

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error


def test_an_outage_opens_the_breaker_and_one_call_after_a_rest_closes_it() -> None:
    failing = Failing(MemoryProviderTimedOut("elsewhere", "why", is_outage=True))
    for _ in range(FAILURES):
        with pytest.raises(MemoryProviderTimedOut):
            failing.guarded.search(REF, question(axis(0)))
    with pytest.raises(MemoryProviderFailed, match="'elsewhere': it failed several times in a row"):
        failing.guarded.put(REF, [inserted("one", axis(0))])
    assert len(failing.calls) == FAILURES
    failing.now, failing.error = REST_S, None
    failing.guarded.put(REF, [inserted("one", axis(0))])
    assert documents(failing.guarded.search(REF, question(axis(0)))) == ["one"]


def test_slow_calls_of_one_caller_are_no_outage_for_others() -> None:
    failing = Failing(MemoryProviderTimedOut("elsewhere", "why"))
    for _ in range(3 * FAILURES):
        with pytest.raises(MemoryProviderTimedOut):
            failing.guarded.search(REF, question(axis(0)))
    failing.error = None
    failing.guarded.put(REF, [inserted("one", axis(0))])


def test_a_failure_of_one_call_opens_nothing() -> None:
    failing = Failing(MemoryProviderFailed("elsewhere", "why"))
    for _ in range(FAILURES + 2):
        with pytest.raises(MemoryProviderFailed, match="why"):
            failing.guarded.remove(REF)
    assert len(failing.calls) == FAILURES + 2


def test_an_operators_check_is_never_refused() -> None:
    failing = Failing(MemoryProviderTimedOut("elsewhere", "why"))
    for _ in range(FAILURES):
        with pytest.raises(MemoryProviderTimedOut):
            failing.guarded.create(REF, 3)
    assert failing.guarded.check() == "a dictionary"
