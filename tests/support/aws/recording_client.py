"""A DynamoDB client that records its requests, and which of them overlap."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as botocore got it; `name` is that of the API's operation."""

    name: str
    parameters: dict[str, Any]


class RecordingClient:
    """Calls that are under way at the same time form a round trip.

    Given the number of calls of a round trip, it holds each until all have come, so that calls which may overlap do;
    without the others, a call becomes a round trip of its own after a timeout. The calls themselves are made
    one at a time, because moto copies its tables without a lock.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._one_at_a_time = threading.Lock()
        self._changed = threading.Condition()
        self._round_trips: list[list[str]] = []
        self._under_way = 0
        self._sizes: Iterator[int] = iter(())
        self._size = 1
        self.requests: list[Request] = []

    def expect(self, sizes: Sequence[int]) -> None:
        """Begin a new recording; the next round trips are to have so many calls."""
        with self._changed:
            assert not self._under_way, "calls are still under way"
            self._round_trips = []
            self._sizes = iter(sizes)

    def round_trips(self) -> list[list[str]]:
        """Return the calls of each round trip, in alphabetical order."""
        with self._changed:
            return [sorted(names) for names in self._round_trips]

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = getattr(self._client, verb)
        name = self._client.meta.method_to_api_mapping[verb]

        def recorded(**parameters: Any) -> Any:
            with self._recorded(Request(name, parameters)), self._one_at_a_time:
                return method(**parameters)

        return recorded

    @contextmanager
    def _recorded(self, request: Request) -> Iterator[None]:
        with self._changed:
            self.requests.append(request)
            if not self._under_way:
                self._round_trips.append([])
                self._size = next(self._sizes, 1)
            round_trip = self._round_trips[-1]
            round_trip.append(request.name)
            self._under_way += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(round_trip) >= self._size, PATIENCE_S)
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
