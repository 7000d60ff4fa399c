"""A RangeStore that counts the requests DynamoDB would get, between Turnstone and any store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.capacity import (
    PAGE_BYTES,
    is_transaction,
    size_of_record,
    units_of_get,
    units_of_range,
    units_of_write,
)
from turnstone.ports.records import Delete, Get, Key, KeyPage, Operation, Put, Range, Record, RecordPage
from turnstone.ports.storage import RangeStore

BATCH_KEYS = 100
BATCH_DELETES = 25


@dataclass(frozen=True, slots=True)
class Call:
    """A request to DynamoDB, under the name it has there."""

    name: str
    read_units: int = 0
    write_units: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """The requests of some work to DynamoDB: round trips one after the other, in each the simultaneous calls."""

    round_trips: tuple[tuple[Call, ...], ...] = ()

    @property
    def calls(self) -> int:
        return sum(map(len, self.round_trips))

    @property
    def read_units(self) -> int:
        return sum(call.read_units for calls in self.round_trips for call in calls)

    @property
    def write_units(self) -> int:
        return sum(call.write_units for calls in self.round_trips for call in calls)

    @property
    def names(self) -> list[list[str]]:
        """Return the calls of each round trip, in alphabetical order."""
        return [sorted(call.name for call in calls) for calls in self.round_trips]


class CountedStore:
    """Belongs under whatever compresses, so that sizes are those that are stored.

    It makes the calls that DynamoRangeStore makes when nothing is throttled: several gets are batches, a lone write is
    no transaction, a page ends with the record that makes it a megabyte. A refused write is counted like any other.
    """

    def __init__(self, store: RangeStore, reader: RangeStore | None = None) -> None:
        """Take the store, and another one over the same records for the reads that only the counting makes."""
        self._store = store
        self._reader = reader or store
        self._round_trips: list[tuple[Call, ...]] = []

    def taken(self) -> Bill:
        """Return the requests since the last call."""
        bill = Bill(tuple(self._round_trips))
        self._round_trips = []
        return bill

    def get(self, key: Key) -> Record | None:
        record = self._store.get(key)
        self._round_trips.append((_get_item(record),))
        return record

    def range(self, query: Range) -> RecordPage:
        page = _as_paged(self._store.range(_unheeded(query)))
        self._round_trips.append((_query(page),))
        return page

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        records, uncut = self._store.gather(gets, [_unheeded(query) for query in ranges])
        pages = [_as_paged(page) for page in uncut]
        batches = [_get_item(records[0])] if len(gets) == 1 else list(_batches(gets, records))
        self._round_trips += [(*batches[:1], *map(_query, pages))] if gets or ranges else []
        self._round_trips += [(batch,) for batch in batches[1:]]
        return records, pages

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        found = [(operation, self._reader.get(operation.key)) for operation in operations]
        self._round_trips.append((Call(_name_of_write(operations), write_units=units_of_write(found)),))
        self._store.write(operations, nonce)

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        page = self._store.open_keys(shard, limit, after)
        self._round_trips.append((Call("Query", read_units=1),))
        return page

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        page = self._reader.range(Range(pk, limit=limit)) if sk is None else RecordPage(())
        deletes = [(Delete(record.key), record) for record in page.records]
        self._round_trips.append((_query(page) if sk is None else Call("DeleteItem", write_units=1),))
        for first in range(0, len(deletes), BATCH_DELETES):
            units = sum(units_of_write([delete]) for delete in deletes[first : first + BATCH_DELETES])
            self._round_trips.append((Call("BatchWriteItem", write_units=units),))
        return self._store.clear(pk, limit, sk)


def without_extensions(bill: Bill) -> Bill:
    """Return the bill without the extensions of the lease, which a slow machine makes."""
    return Bill(tuple(calls for calls in bill.round_trips if [call.name for call in calls] != ["UpdateItem"]))


def _get_item(record: Record | None) -> Call:
    return Call("GetItem", read_units=units_of_get(record))


def _query(page: RecordPage) -> Call:
    return Call("Query", read_units=units_of_range(page.records))


def _batches(gets: Sequence[Get], records: Sequence[Record | None]) -> Iterator[Call]:
    """Yield the calls for several gets, which are made one after the other and name each key once."""
    units = [units_of_get(record) for record in dict(zip(gets, records, strict=True)).values()]
    for first in range(0, len(units), BATCH_KEYS):
        yield Call("BatchGetItem", read_units=sum(units[first : first + BATCH_KEYS]))


def _name_of_write(operations: Sequence[Operation]) -> str:
    if is_transaction(operations):
        return "TransactWriteItems"
    match operations[0]:
        case Put():
            return "PutItem"
        case Delete():
            return "DeleteItem"
    return "UpdateItem"


def _unheeded(query: Range) -> Range:
    """Return the query without the parts that DynamoDB's pages ignore."""
    return query._replace(held_bytes=None)


def _as_paged(page: RecordPage) -> RecordPage:
    size_bytes = 0
    for count, record in enumerate(page.records, start=1):
        size_bytes += size_of_record(record)
        if size_bytes >= PAGE_BYTES:
            return RecordPage(page.records[:count], record.key.sk)
    return page
