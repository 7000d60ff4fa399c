"""moto's tables, copied and queried in no time. To import this changes them for the process.

moto copies a whole table for each operation of a transaction, to go back if one is refused, which took most of its
time. Here a copy shares the items of its table, and an update replaces its item instead of changing it. And moto sorts
a whole table for each query, which took most of the rest: here a query sorts the items of its partition. Last, moto
searches each value of an answer for values of all ten types, under several names: here it takes the one that is there.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from moto.core.serialize import ResponseSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

INDEX_NAME = 6  # among the arguments of a query behind its key
CAST_AS_THEY_ARE = ("S", "BOOL")
_update_item: Callable[..., Any] = DynamoDBBackend.update_item
query_the_whole_table: Callable[..., Any] = Table.query
_serialize_structure: Callable[..., None] = ResponseSerializer._serialize_type_structure
_cast_value: Callable[[DynamoType], Any] = DynamoType.cast_value.fget  # type: ignore[attr-defined]


def _copied(table: Table, _: dict[int, Any]) -> Table:
    twin = copy.copy(table)
    twin.items = defaultdict(dict, {pk: dict(by_sk) for pk, by_sk in table.items.items()})
    return twin


def _update_in_a_copy(backend: DynamoDBBackend, table_name: str, key: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    table = backend.get_table(table_name)
    pk, sk = backend.get_keys_value(table, key)
    if sk in table.items[pk]:
        table.items[pk][sk] = copy.deepcopy(table.items[pk][sk])
    return _update_item(backend, table_name, key, *args, **kwargs)


def _query_a_partition(
    table: Table, hash_key: DynamoType | None, *args: Any, hash_key_conditions: Any = None, **kwargs: Any
) -> Any:
    if not table.range_key_attr:
        return query_the_whole_table(table, hash_key, *args, hash_key_conditions=hash_key_conditions, **kwargs)
    partition = copy.copy(table)
    if args[INDEX_NAME] is None:
        found = list(table.items.get(hash_key, {}).values())
    else:
        found = [item for item in _all(table) if _has(item, hash_key_conditions or ())]
    partition.all_items = lambda: found  # type: ignore[method-assign] # sorted by the query itself
    return query_the_whole_table(partition, hash_key, *args, hash_key_conditions=hash_key_conditions, **kwargs)


def _all(table: Table) -> list[Item]:
    return [item for by_sk in table.items.values() for item in by_sk.values()]


def _has(item: Item, conditions: Sequence[tuple[str, DynamoType]]) -> bool:
    for name, expected in conditions:
        value = item.attrs.get(name)
        if value is None or value.value != expected.value or value.type != expected.type:
            return False
    return True


def _cast_quickly(value: DynamoType) -> Any:
    return value.value if value.type in CAST_AS_THEY_ARE else _cast_value(value)


def _serialize_the_type_there_is(
    serializer: ResponseSerializer, serialized: Any, value: Any, shape: Any, key: str
) -> None:
    if shape.name != "AttributeValue" or type(value) is not dict or not key:
        _serialize_structure(serializer, serialized, value, shape, key)
        return
    made = serializer.MAP_TYPE()
    for kind, held in value.items():
        member = shape.members[kind]
        member.parent = shape
        serializer._serialize(made, held, member, kind)
    serializer._default_serialize(serialized, made, shape, key)


Table.__deepcopy__ = _copied  # type: ignore[attr-defined]
DynamoDBBackend.update_item = _update_in_a_copy  # type: ignore[assignment, method-assign]
Table.query = _query_a_partition  # type: ignore[assignment, method-assign]
DynamoType.cast_value = property(_cast_quickly)  # type: ignore[assignment]
ResponseSerializer._serialize_type_structure = _serialize_the_type_there_is  # type: ignore[method-assign]
