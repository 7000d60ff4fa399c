"""The daily token limit of a tenant: when the count is read, and how long a tenant above it is refused.

Covers: services/usage/limits, store/usage/usage
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import DayLimitReached
from turnstone.domain.usage.usage import Tokens
from turnstone.services.usage.limits import MOST_TENANTS, READ_EVERY, DayLimit
from turnstone.store.usage.usage import Spent

EVENING = datetime(2026, 5, 4, 23, 59, 55, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.at = EVENING
        self.set_back_s = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.at.timestamp() + self.set_back_s


class Store:
    """Every tenant has spent `tokens` on the fourth of May, and nothing later."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.reads = 0

    def of_tenant(self, tenant: str, day: date, agent_id: str | None = None) -> Iterator[Spent]:
        self.reads += 1
        by_model = {"m": Tokens(inferences=1, prompt_tokens=self.tokens)}
        return iter([Spent(day, "a", "s", by_model, Ownership())] if day == EVENING.date() else [])


def limited(tokens: int, limit: int | None = 100) -> tuple[DayLimit, Store, Clock]:
    store, clock = Store(tokens), Clock()
    return DayLimit(store, clock, limit), store, clock  # type: ignore[arg-type] # no records are needed


def test_a_tenant_without_tokens_left_is_refused_until_midnight_and_not_a_second_longer() -> None:
    limit, _, clock = limited(tokens=100)
    with pytest.raises(DayLimitReached) as refused:
        limit.check("t")
    assert refused.value.retry_after_s == 5
    clock.at += timedelta(seconds=5)
    limit.check("t")


def test_one_token_below_the_limit_allows_another_turn() -> None:
    limited(tokens=99)[0].check("t")


def test_a_reading_is_cached_for_ten_seconds_for_each_tenant() -> None:
    limit, store, clock = limited(tokens=0)
    clock.at -= timedelta(hours=1)
    for seconds, reads in ((0, 1), (9.9, 1), (0.1, 2)):
        clock.at += timedelta(seconds=seconds)
        limit.check("t")
        assert store.reads == reads
    limit.check("another")
    assert store.reads == 3


def test_a_reading_expires_in_time_though_the_clock_was_set_back() -> None:
    limit, store, clock = limited(tokens=0)
    limit.check("t")
    clock.at -= timedelta(hours=1)
    clock.set_back_s = 3_600
    limit.check("t")
    assert store.reads == 1
    clock.at += READ_EVERY
    limit.check("t")
    assert store.reads == 2


def test_tenants_without_number_take_no_memory_without_end() -> None:
    limit, _, _ = limited(tokens=0)
    for number in range(MOST_TENANTS + 1):
        limit.check(f"t{number}")
    assert len(limit._readings) == 1


def test_without_a_limit_nothing_is_read() -> None:
    limit, store, _ = limited(tokens=10**9, limit=None)
    limit.check("t")
    assert store.reads == 0
