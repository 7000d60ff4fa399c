"""What every RangeStore asks of a write before it looks at a record."""

from __future__ import annotations

from collections.abc import Sequence

from turnstone.records import MAX_OPERATIONS, Operation, Put, Update


def check_operations(operations: Sequence[Operation]) -> None:
    """Raise ValueError for operations no store accepts: none, over 100, two on one key, an empty key, an odd `open`."""
    if not 1 <= len(operations) <= MAX_OPERATIONS:
        raise ValueError(f"a write has 1 to {MAX_OPERATIONS} operations, not {len(operations)}")
    if len({operation.key for operation in operations}) < len(operations):
        raise ValueError("a write has two operations on one key")
    for operation in operations:
        if not (operation.key.pk and operation.key.sk):
            raise ValueError(f"a part of {operation.key!r} is empty")
        if isinstance(operation, Put | Update):
            shard = operation.attributes.get("open")
            if shard is not None and (shard == "" or not isinstance(shard, str)):
                raise ValueError(f"the attribute 'open' of {operation.key!r} is not the name of a shard: {shard!r}")
