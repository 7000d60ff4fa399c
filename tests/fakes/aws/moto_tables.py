"""moto's tables, copied in no time. To import this changes them for the process.

moto copies a whole table for each operation of a transaction, to go back if one is refused, which took most of its
time. Here a copy shares the items of its table, and an update replaces its item instead of changing it.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table

_update_item: Callable[..., Any] = DynamoDBBackend.update_item


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


Table.__deepcopy__ = _copied  # type: ignore[attr-defined]
DynamoDBBackend.update_item = _update_in_a_copy  # type: ignore[method-assign]
