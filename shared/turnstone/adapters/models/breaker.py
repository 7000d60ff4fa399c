"""Leaving alone for a while who has failed again and again."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

FAILURES = 3
REST_S = 30.0
MOST_KEPT = 1_000  # callers name models as they like, so names must not pile up while a provider is away


@dataclass(slots=True)
class _Record:
    failures: int = 0
    rests_until: float = 0.0


class CircuitBreaker:
    """Counts failures in a row of each one it is told of, in this process.

    After three it rests for half a minute; then one question at a time tries again, until one is answered.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = Lock()
        self._records: dict[Hashable, _Record] = {}

    def may_ask(self, name: Hashable) -> bool:
        """Tell whether it may be asked now. Who is told so after a rest is the one who tries."""
        with self._lock:
            record = self._records.get(name)
            if record is None or record.failures < FAILURES:
                return True
            if self._now() < record.rests_until:
                return False
            record.rests_until = self._now() + REST_S
            return True

    def answered(self, name: Hashable) -> bool:
        """Forget its failures; tell whether it rested for them."""
        with self._lock:
            record = self._records.pop(name, None)
            return record is not None and record.failures >= FAILURES

    def failed(self, name: Hashable) -> bool:
        """Count a failure; tell whether it is the one after which it rests."""
        with self._lock:
            if name not in self._records and len(self._records) >= MOST_KEPT:
                del self._records[next(iter(self._records))]
            record = self._records.setdefault(name, _Record())
            record.failures += 1
            record.rests_until = self._now() + REST_S
            return record.failures == FAILURES
