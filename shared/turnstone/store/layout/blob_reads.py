"""Fetch several payloads at the same time, in a bounded number of short-lived threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from threading import Thread

from turnstone.domain.values.outcome import Outcome, Raised, guarded

THREADS = 8
Fetch = Callable[[str], bytes | None]


def at_once(fetch: Fetch, names: Sequence[str]) -> dict[str, Callable[[], bytes | None]]:
    """Fetch the payloads in this thread and up to seven others; return what gives each, or raises its own error."""
    outcomes: dict[str, Outcome[bytes | None]] = {}
    following = count()

    def work() -> None:
        while (index := next(following)) < len(names):
            outcomes[names[index]] = guarded(partial(fetch, names[index]))

    threads = [Thread(target=work, name="payloads", daemon=True) for _ in range(min(THREADS, len(names)) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return {name: partial(_value, outcome) for name, outcome in outcomes.items()}


def _value(outcome: Outcome[bytes | None]) -> bytes | None:
    if isinstance(outcome, Raised):
        raise outcome.error
    return outcome.value
