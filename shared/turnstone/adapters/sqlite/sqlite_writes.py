"""Convert the operations of a write to SQL statements with their conditions.

Each statement releases the interpreter lock, and its writer waits to get the lock back, while all other writers
wait for that writer. So the usual conditions are part of the statement itself, and nothing is read first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnstone.adapters.sqlite.sqlite_rows import attributes_in, row_of
from turnstone.ports.records import (
    Absent,
    AttributeIs,
    Condition,
    Delete,
    Key,
    Operation,
    Put,
    RevIs,
    Scalar,
    Update,
)

_STATE = "SELECT rev, attributes, nonce FROM items WHERE pk = ? AND sk = ?"
_INSERT = """INSERT INTO items (rev, open, attributes, nonce, body, pk, sk) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (pk, sk) DO """
_PUT_NEW = f"{_INSERT} NOTHING"
_PUT = f"""{_INSERT} UPDATE SET rev = excluded.rev, open = excluded.open, attributes = excluded.attributes,
        nonce = excluded.nonce, body = excluded.body"""
_PUT_OVER = """UPDATE items SET rev = ?, open = ?, attributes = ?, nonce = ?, body = ?
    WHERE pk = ? AND sk = ? AND rev = ?"""
_UPDATE = "UPDATE items SET rev = ?, open = ?, attributes = ?, nonce = ? WHERE pk = ? AND sk = ?"
DELETE = "DELETE FROM items WHERE pk = ? AND sk = ?"


@dataclass(frozen=True, slots=True)
class _State:
    """The state that conditions compare: a record without its body."""

    rev: int
    attributes: Mapping[str, Scalar]
    nonce: str | None


def first_failed(connection: sqlite3.Connection, operations: Sequence[Operation], nonce: str | None) -> int | None:
    """Apply the operations, each to another record, up to the first failed condition; return its index."""
    for index, operation in enumerate(operations):
        if not _try_apply(connection, operation, nonce):
            return index
    return None


def was_applied(connection: sqlite3.Connection, operations: Sequence[Operation], nonce: str | None) -> bool:
    """Return whether the records carry the nonce of this write."""
    if nonce is None:
        return False
    states = (_state(connection, operation.key) for operation in operations if isinstance(operation, Put | Update))
    return any(state is not None and state.nonce == nonce for state in states)


def _try_apply(connection: sqlite3.Connection, operation: Operation, nonce: str | None) -> bool:
    """Apply the operation if its conditions hold; return whether they did."""
    match operation:
        case Put(when=()):
            return _changed(connection, _PUT, _put(operation, nonce))
        case Put(when=(Absent(),)):
            return _changed(connection, _PUT_NEW, _put(operation, nonce))
        case Put(when=(RevIs(rev),)):
            return _changed(connection, _PUT_OVER, (*_put(operation, nonce), rev))
    state = _state(connection, operation.key)
    if not all(_holds(condition, state) for condition in operation.when):
        return False
    match operation:
        case Put():
            connection.execute(_PUT, _put(operation, nonce))
        case Update():
            if state is None:
                return False
            merged = {**state.attributes, **operation.attributes}
            row = row_of(_revision(operation.when, state.rev), merged, nonce)
            connection.execute(_UPDATE, (*row, *operation.key))
        case Delete():
            connection.execute(DELETE, operation.key)
    return True


def _put(put: Put, nonce: str | None) -> tuple[Scalar | bytes | None, ...]:
    return *row_of(_revision(put.when, 1), put.attributes, nonce), put.body, *put.key


def _changed(connection: sqlite3.Connection, statement: str, values: Sequence[Scalar | bytes | None]) -> bool:
    return connection.execute(statement, values).rowcount == 1


def _state(connection: sqlite3.Connection, key: Key) -> _State | None:
    row = connection.execute(_STATE, key).fetchone()
    if row is None:
        return None
    rev, attributes, nonce = row
    return _State(rev, attributes_in(attributes), nonce)


def _holds(condition: Condition, state: _State | None) -> bool:
    match condition:
        case Absent():
            return state is None
        case RevIs(rev):
            return state is not None and state.rev == rev
        case AttributeIs(name, value):
            return state is not None and state.attributes.get(name) == value


def _revision(when: tuple[Condition, ...], otherwise: int) -> int:
    return next((condition.rev + 1 for condition in when if isinstance(condition, RevIs)), otherwise)
