"""Circuit breaker: opens after 3 failures in a row for 30 s, then half-open."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

FAILURES = 3
REST_S = 30.0
MOST_KEPT = 1_000  # callers name models freely, so names must not pile up while a provider is down


@dataclass(slots=True)
class _Record:
    failures: int = 0
    rests_until: float = 0.0


class CircuitBreaker:
    """Counts consecutive failures of each key, in this process.

    Opens for half a minute after three failures; then lets one request at a time through until one succeeds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = Lock()
        self._records: dict[Hashable, _Record] = {}

    def allows_request(self, name: Hashable) -> bool:
        """Return whether a request may be sent now. While half-open, the first caller to get True makes the trial."""
        with self._lock:
            record = self._records.get(name)
            if record is None or record.failures < FAILURES:
                return True
            if self._now() < record.rests_until:
                return False
            record.rests_until = self._now() + REST_S
            return True

    def answered(self, name: Hashable) -> bool:
        """Reset the failures; return whether the breaker was open."""
        with self._lock:
            record = self._records.pop(name, None)
            return record is not None and record.failures >= FAILURES

    def failed(self, name: Hashable) -> bool:
        """Count a failure; return whether this one opens the breaker."""
        with self._lock:
            if name not in self._records and len(self._records) >= MOST_KEPT:
                del self._records[next(iter(self._records))]
            record = self._records.setdefault(name, _Record())
            record.failures += 1
            record.rests_until = self._now() + REST_S
            return record.failures == FAILURES
