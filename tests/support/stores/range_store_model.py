"""A minimal model of a RangeStore's writes, to compare a real one with."""

from __future__ import annotations

import uuid
from itertools import combinations

from hypothesis import strategies as st

from turnstone.ports.records import (
    Absent,
    AttributeIs,
    Check,
    Condition,
    Delete,
    Key,
    Operation,
    Put,
    Record,
    RevIs,
    Update,
)

CONDITIONS: tuple[Condition, ...] = (
    Absent(),
    RevIs(1),
    RevIs(2),
    AttributeIs("status", "running"),
    AttributeIs("status", "closed"),
    AttributeIs("fence", 7),
    AttributeIs("fence", "7"),
    AttributeIs("missing", 0),
)
PAIRS: list[tuple[Condition, ...]] = [*combinations(CONDITIONS, 1), *combinations(CONDITIONS, 2)]


class ModelStore:
    """A dictionary of records, and the rules."""

    def __init__(self) -> None:
        self.records: dict[Key, Record] = {}

    def write(self, operations: list[Operation]) -> int | None:
        """Apply all operations, or none and return the index of the first whose condition failed."""
        for index, operation in enumerate(operations):
            if not self.allows(operation):
                return index
        for operation in operations:
            self._apply(operation)
        return None

    def allows(self, operation: Operation) -> bool:
        """Return whether the operation alone would be applied."""
        record = self.records.get(operation.key)
        if isinstance(operation, Update) and record is None:
            return False
        return all(_holds(condition, record) for condition in operation.when)

    def _apply(self, operation: Operation) -> None:
        key = operation.key
        named = [condition.rev for condition in operation.when if isinstance(condition, RevIs)]
        if isinstance(operation, Put):
            self.records[key] = Record(key, operation.body, operation.attributes, named[0] + 1 if named else 1)
        elif isinstance(operation, Update):
            old = self.records[key]
            changed = {**old.attributes, **operation.attributes}
            kept = {name: value for name, value in changed.items() if value is not None}
            self.records[key] = Record(key, old.body, kept, old.rev + 1 if named else old.rev)
        elif isinstance(operation, Delete):
            self.records.pop(key, None)


def _holds(condition: Condition, record: Record | None) -> bool:
    if isinstance(condition, Absent) or record is None:
        return isinstance(condition, Absent) and record is None
    if isinstance(condition, RevIs):
        return record.rev == condition.rev
    return condition.name in record.attributes and record.attributes[condition.name] == condition.value


def new_partition() -> str:
    """Return an unused partition key."""
    return f"local|session:a:{uuid.uuid4().hex}"


def writes_on(keys: list[Key]) -> st.SearchStrategy[list[Operation]]:
    """Return a strategy for the operations of one write, each on another of the keys."""
    return st.tuples(*(st.none() | _operation_on(key) for key in keys)).map(_present).filter(bool)


def _operation_on(key: Key) -> st.SearchStrategy[Operation]:
    status = st.sampled_from(["running", "closed"])
    attributes = st.fixed_dictionaries({}, optional={"status": status, "fence": st.sampled_from([7, "7", 8])})
    changes = st.fixed_dictionaries({}, optional={"status": st.none() | status, "fence": st.sampled_from([7, None])})
    when = st.just(()) | st.sampled_from(PAIRS)
    body = st.binary(max_size=20)
    return st.one_of(
        st.builds(Put, st.just(key), body, attributes, when),
        st.builds(Update, st.just(key), changes, when),
        st.builds(Delete, st.just(key), when),
        st.builds(Check, st.just(key), st.sampled_from(PAIRS)),
    )


def _present(operations: tuple[Operation | None, ...]) -> list[Operation]:
    return [operation for operation in operations if operation is not None]
