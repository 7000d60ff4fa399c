"""What DynamoDB would charge for records, computed from their sizes. Pure.

Source: the DynamoDB developer guide, "Item sizes and formats" and "Read/write capacity mode": a size is the sum of the
attributes' names and values in UTF-8; a strongly consistent read costs a unit per begun 4 KB, of a whole query page at
once or of each got item; a write costs a unit per begun KB of the larger of old and new item, in a transaction two; an
index whose keys change costs a unit for each entry that is removed or put, and no transaction price (not verified
against a live account). A read of nothing and a put of something new are charged by the same rules.
"""

from collections.abc import Iterable, Mapping

from turnstone.ports import Key, Operation, Put, Record, Scalar, Update

KB = 1024
READ_UNIT_BYTES = 4 * KB
TRANSACTION_FACTOR = 2
NONCE_BYTES = len("nonce") + 32
NAMED = len("pk") + len("sk") + len("body") + len("rev")


def size_of_record(record: Record) -> int:
    """Return the bytes of the record as an item, with the nonce of its last write."""
    return size_of(record.key, record.body, record.attributes, record.rev)


def size_of(key: Key, body: bytes, attributes: Mapping[str, Scalar], rev: int) -> int:
    """Return the bytes of an item."""
    promoted = sum(len(name) + size_of_value(value) for name, value in attributes.items())
    values = len(key.pk.encode()) + len(key.sk.encode()) + len(body) + size_of_value(rev)
    return NAMED + values + promoted + NONCE_BYTES


def size_of_value(value: Scalar) -> int:
    """Return the bytes of a text or a number, which takes one for two digits and one more."""
    return len(value.encode()) if isinstance(value, str) else 1 + -(-len(str(abs(value))) // 2)


def units_of_get(record: Record | None) -> int:
    return max(1, _begun(size_of_record(record), READ_UNIT_BYTES)) if record is not None else 1


def units_of_range(records: Iterable[Record]) -> int:
    return max(1, _begun(sum(size_of_record(record) for record in records), READ_UNIT_BYTES))


def units_of_write(operations: Iterable[tuple[Operation, Record | None]]) -> int:
    """Return the units of one write, given with the record each operation finds; one put alone is no transaction."""
    found = list(operations)
    factor = 1 if len(found) == 1 else TRANSACTION_FACTOR
    return sum(
        factor * max(1, _begun(_larger_size(operation, before), KB)) + _index_entries(operation, before)
        for operation, before in found
    )


def _larger_size(operation: Operation, before: Record | None) -> int:
    size_before = 0 if before is None else size_of_record(before)
    if isinstance(operation, Put):
        # The revision is a number of a few digits: its size hardly differs from that of 1.
        return max(size_before, size_of(operation.key, operation.body, operation.attributes, rev=1))
    return size_before


def _index_entries(operation: Operation, before: Record | None) -> int:
    """Return how many entries of the open index the operation removes and puts."""
    old = None if before is None else before.attributes.get("open")
    if isinstance(operation, Put):
        new: Scalar | None = operation.attributes.get("open")
    elif isinstance(operation, Update):
        new = operation.attributes.get("open", old)
    else:
        new = old
    return 0 if old == new else (old is not None) + (new is not None)


def _begun(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes)
