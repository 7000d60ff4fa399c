"""The table as the template makes it, for tests; and a part of one, for tests that share a table with others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar
from uuid import uuid4

from turnstone.adapters.aws.dynamodb_items import encoded_key
from turnstone.domain.errors import Conflict
from turnstone.ports.records import (
    AttributeIs,
    Condition,
    Get,
    Key,
    KeyPage,
    Operation,
    Put,
    Range,
    Record,
    RecordPage,
    Update,
)
from turnstone.ports.storage import RangeStore

REGION = "eu-central-1"
BUCKET = "turnstone-blobs"
TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "open")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "open",
            "KeySchema": [{"AttributeName": "open", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}
BATCH_DELETES = 25
PAUSE_S = 0.1

Value = TypeVar("Value")


def create_table(client: Any, name: str) -> None:
    client.create_table(TableName=name, **TABLE)


def shape(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required properties of a table, given or described, in a fixed order."""
    indexes = {index["IndexName"]: index for index in description.get("GlobalSecondaryIndexes", [])}
    index = indexes.get("open", {"KeySchema": [], "Projection": None})
    types = {entry["AttributeName"]: entry["AttributeType"] for entry in description["AttributeDefinitions"]}
    return {
        "keys": [(part["AttributeName"], part["KeyType"]) for part in description["KeySchema"]],
        "index": [(part["AttributeName"], part["KeyType"]) for part in index["KeySchema"]],
        "projection": index["Projection"],
        "types": {name: types.get(name) for name in ("pk", "sk", "open")},
    }


def delete_items(client: Any, table_name: str, keys: Iterable[Key]) -> None:
    """Delete the items of the keys, as far as there are any."""
    left = iter(keys)
    while batch := [{"DeleteRequest": {"Key": encoded_key(key)}} for key in islice(left, BATCH_DELETES)]:
        while batch:
            answer = client.batch_write_item(RequestItems={table_name: batch})
            batch = answer.get("UnprocessedItems", {}).get(table_name, [])
            if batch:
                time.sleep(PAUSE_S)


class PartOfTable:
    """A RangeStore over the partitions, and the shards of the open index, whose names begin with a prefix.

    The layers above do not see the prefix. `written` has the table's own keys that may have a record. A nonce is
    replaced by a unique one: a table keeps a nonce and its write for minutes.
    """

    def __init__(self, store: RangeStore, prefix: str) -> None:
        self.written: set[Key] = set()
        self._nonces: dict[str, str] = {}
        self._store = store
        self._prefix = prefix

    def get(self, key: Key) -> Record | None:
        return self._record(self._store.get(self._inner(key)))

    def range(self, query: Range) -> RecordPage:
        return self._page(self._store.range(self._query(query)))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        inner_gets = [Get(self._inner(get.key)) for get in gets]
        records, pages = self._store.gather(inner_gets, [self._query(query) for query in ranges])
        return [self._record(record) for record in records], [self._page(page) for page in pages]

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        inner = [self._operation(operation) for operation in operations]
        self.written |= {put.key for put in inner if isinstance(put, Put) and put.key.pk and put.key.sk}
        try:
            self._store.write(inner, None if nonce is None else self._nonces.setdefault(nonce, uuid4().hex))
        except Conflict as conflict:
            found = self._record(conflict.found)
            raise Conflict(conflict.operation, self._outer(conflict.key), found) from conflict

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        page = self._store.open_keys(self._prefix + shard, limit, self._inner(after) if after else None)
        return KeyPage(tuple(map(self._outer, page.keys)), self._outer(page.after) if page.after else None)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        return self._store.clear(self._prefix + pk, limit, sk)

    def _inner(self, key: Key) -> Key:
        # no partition has an empty name: with a prefix it would have one, and the store could not refuse it
        return Key(self._prefix + key.pk, key.sk) if key.pk else key

    def _outer(self, key: Key) -> Key:
        assert key.pk.startswith(self._prefix), f"{key!r} is not of this part of the table"
        return Key(key.pk.removeprefix(self._prefix), key.sk)

    def _query(self, query: Range) -> Range:
        return query._replace(pk=self._prefix + query.pk)

    def _operation(self, operation: Operation) -> Operation:
        when = tuple(map(self._condition, operation.when))
        if isinstance(operation, Put | Update):
            return operation._replace(
                key=self._inner(operation.key), attributes=self._shards(operation.attributes), when=when
            )
        return replace(operation, key=self._inner(operation.key), when=when)

    def _condition(self, condition: Condition) -> Condition:
        if isinstance(condition, AttributeIs) and condition.name == "open":
            return condition._replace(value=f"{self._prefix}{condition.value}")
        return condition

    def _shards(self, attributes: Mapping[str, Value]) -> dict[str, Any]:
        shard = attributes.get("open")
        return {**attributes, "open": f"{self._prefix}{shard}"} if shard is not None else dict(attributes)

    def _page(self, page: RecordPage) -> RecordPage:
        return RecordPage(tuple(record for record in map(self._record, page.records) if record), page.after)

    def _record(self, record: Record | None) -> Record | None:
        if record is None:
            return None
        attributes = dict(record.attributes)
        if "open" in attributes:
            attributes["open"] = str(attributes["open"]).removeprefix(self._prefix)
        return record._replace(key=self._outer(record.key), attributes=attributes)
