"""System clock, and ids from the time and randomness."""

from datetime import UTC, datetime
from os import urandom
from time import monotonic

from turnstone.domain.values.ids import milliseconds, order_key, uuid7


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return monotonic()


class RandomIds:
    def new_id(self) -> str:
        return uuid7(milliseconds(datetime.now(UTC)), urandom(10))

    def order_key(self, at: datetime, previous: str | None) -> str:
        return order_key(at, previous, urandom(10))
