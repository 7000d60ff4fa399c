"""Fetch several payloads at the same time or ahead of their reader, in a bounded number of short-lived threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class ReadAhead:
    """Payloads that one reader reads in an order: the following ones are fetched while it consumes one.

    The payload that was read last is held for a second reading. A payload is fetched ahead once at most, so a reader
    with another order causes no more requests than without.
    """

    def __init__(self, fetch: Fetch, sizes: Mapping[str, int], limit_bytes: int) -> None:
        """Take the sizes in bytes by name, in the order of reading, and the limit of the held bytes."""
        self._fetch = fetch
        self._sizes = sizes
        self._limit_bytes = limit_bytes
        self._names = tuple(sizes)
        self._positions = {name: position for position, name in enumerate(self._names)}
        self._held: dict[str, _Fetching] = {}
        self._following = 0

    def __contains__(self, name: str) -> bool:
        return name in self._positions

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload in one piece, as `BlobStore.pieces`. Raises LookupError if it is missing."""
        body = self._get(name)
        if body is None:
            raise LookupError(f"the payload {name!r} is missing")
        yield body

    def _get(self, name: str) -> bytes | None:
        position = self._positions[name]
        self._held = {each: held for each, held in self._held.items() if self._positions[each] >= position}
        if name not in self._held:
            self._begin(name)
        self._following = max(self._following, position + 1)
        self._fetch_following()
        outcome = self._held[name].outcome()
        if isinstance(outcome, Raised):
            del self._held[name]  # another reading tries again
        return _value(outcome)

    def _fetch_following(self) -> None:
        size_bytes = sum(self._sizes[name] for name in self._held)
        for name in self._names[self._following :]:
            size_bytes += self._sizes[name]
            if size_bytes > self._limit_bytes or len(self._held) >= THREADS:
                return
            self._begin(name)
            self._following += 1

    def _begin(self, name: str) -> None:
        self._held[name] = _Fetching(partial(self._fetch, name))


class _Fetching:
    """A payload that a thread of its own fetches."""

    def __init__(self, fetch: Callable[[], bytes | None]) -> None:
        self._fetch = fetch
        self._outcomes: list[Outcome[bytes | None]] = []
        self._thread = Thread(target=self._work, name="payloads", daemon=True)
        self._thread.start()

    def outcome(self) -> Outcome[bytes | None]:
        """Return the outcome, once it is there."""
        self._thread.join()
        return self._outcomes[0]

    def _work(self) -> None:
        self._outcomes.append(guarded(self._fetch))
