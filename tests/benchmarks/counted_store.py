"""A RangeStore that counts what is asked of it, to stand between Turnstone and the real one."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.capacity import units_of_get, units_of_range, units_of_write
from turnstone.ports import Get, Key, KeyPage, Operation, Page, Range, RangeStore, Record


@dataclass(frozen=True, slots=True)
class Cost:
    """What some work cost.

    Attributes:
        calls: requests to the database.
        round_trips: how many of them could not be made at the same time as others.
    """

    calls: int = 0
    round_trips: int = 0
    read_units: int = 0
    write_units: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.calls + other.calls,
            self.round_trips + other.round_trips,
            self.read_units + other.read_units,
            self.write_units + other.write_units,
        )


class CountedStore:
    """Belongs under whatever compresses, so that sizes are those that are stored."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self._cost = Cost()

    def taken(self) -> Cost:
        """Return the cost since this was last asked."""
        cost, self._cost = self._cost, Cost()
        return cost

    def get(self, key: Key) -> Record | None:
        record = self._store.get(key)
        self._cost += Cost(calls=1, round_trips=1, read_units=units_of_get(record))
        return record

    def range(self, query: Range) -> Page:
        page = self._store.range(query)
        self._cost += Cost(calls=1, round_trips=1, read_units=units_of_range(page.records))
        return page

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[Page]]:
        records, pages = self._store.gather(gets, ranges)
        calls = len(gets) + len(ranges)
        units = sum(map(units_of_get, records)) + sum(units_of_range(page.records) for page in pages)
        self._cost += Cost(calls=calls, round_trips=min(calls, 1), read_units=units)
        return records, pages

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        found = [(operation, self._store.get(operation.key)) for operation in operations]
        self._store.write(operations, nonce)
        self._cost += Cost(calls=1, round_trips=1, write_units=units_of_write(found))

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        page = self._store.open_keys(shard, limit, after)
        self._cost += Cost(calls=1, round_trips=1, read_units=1)
        return page
