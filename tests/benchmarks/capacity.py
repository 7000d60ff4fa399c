"""DynamoDB's charges for records, computed from their sizes. Pure.

Source: the DynamoDB developer guide, "Item sizes and formats" and "Read/write capacity mode": a size is the sum of the
attributes' names and values in UTF-8; a strongly consistent read costs a unit per begun 4 KB, of a whole query page at
once or of each got item; a write costs a unit per begun KB of the larger of old and new item, in a transaction two; an
index whose keys change costs a unit for each entry that is removed or put. A read of nothing and a put of something
new are charged by the same rules.

Not verified against a live account: that an index entry has no transaction price, that a check in a transaction is
charged as a write of the checked record, and that a range without records costs a unit.
"""

from collections.abc import Iterable, Mapping, Sequence

from turnstone.ports.records import Check, Delete, Key, Operation, Put, Record, RevIs, Scalar, Update

KB = 1024
READ_UNIT_BYTES = 4 * KB
PAGE_BYTES = 1024 * KB
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
    """Return the bytes of a text or a number, which takes one and one more for two digits up to its closing zeros."""
    if isinstance(value, str):
        return len(value.encode())
    digits = abs(value)
    while digits and digits % 100 == 0:
        digits //= 100
    return 1 + (-(-len(str(digits)) // 2) if digits else 0) + (value < 0)


def units_of_get(record: Record | None) -> int:
    return _begun(size_of_record(record), READ_UNIT_BYTES) if record is not None else 1


def units_of_range(records: Iterable[Record]) -> int:
    return max(1, _begun(sum(size_of_record(record) for record in records), READ_UNIT_BYTES))


def units_of_write(operations: Iterable[tuple[Operation, Record | None]]) -> int:
    """Return the units of one write, given with the record each operation finds."""
    found = list(operations)
    factor = TRANSACTION_FACTOR if is_transaction([operation for operation, _ in found]) else 1
    return sum(
        factor * max(1, _begun(max(_size_before(before), _size_after(operation, before)), KB))
        + _index_entries(operation, before)
        for operation, before in found
    )


def is_transaction(operations: Sequence[Operation]) -> bool:
    """Return whether the write is a transaction; all but a check can be written alone without the price of one."""
    return len(operations) > 1 or isinstance(operations[0], Check)


def _size_before(before: Record | None) -> int:
    return 0 if before is None else size_of_record(before)


def _size_after(operation: Operation, before: Record | None) -> int:
    match operation:
        case Put(key, body, attributes, _):
            return size_of(key, body, attributes, _revision(operation, otherwise=1))
        case Update(key, changes, _) if before is not None:
            merged = {**before.attributes, **changes}
            present = {name: value for name, value in merged.items() if value is not None}
            return size_of(key, before.body, present, _revision(operation, otherwise=before.rev))
    return 0


def _revision(operation: Operation, otherwise: int) -> int:
    return next((condition.rev + 1 for condition in operation.when if isinstance(condition, RevIs)), otherwise)


def _index_entries(operation: Operation, before: Record | None) -> int:
    """Return how many entries of the open index the operation removes and puts."""
    old = None if before is None else before.attributes.get("open")
    new: Scalar | None = old
    if isinstance(operation, Put):
        new = operation.attributes.get("open")
    elif isinstance(operation, Update):
        new = operation.attributes.get("open", old)
    elif isinstance(operation, Delete):
        new = None
    return 0 if old == new else (old is not None) + (new is not None)


def _begun(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes)
