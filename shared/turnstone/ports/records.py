"""Vocabulary of records for every store: keys, conditions, operations, ranges.

They are tuples, except for three that would equal others: `Absent` the empty tuple, `Delete` and `Check` each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

Scalar = str | int
Result = TypeVar("Result")
MAX_OPERATIONS = 100
LAST_SORT_KEY = "\U0010ffff"


class Key(NamedTuple):
    """A record's address: partition key and sort key. Neither is empty."""

    pk: str
    sk: str


class Pieces(Protocol):
    """Reads a body in pieces, any number of times, with the same content each time.

    The first reading raises ContentLost if the body differs from the stored one, NotFound if the record is gone,
    and both before it yields anything. Later ones raise StoreUnavailable if the body can no longer be read.
    """

    def __call__(self) -> Iterator[bytes]:
        """Yield the body from its start."""

    def read_by(self, consume: Callable[[Iterator[bytes]], Result]) -> Result:
        """Return the consumer's result for the whole body, for a first reading whose pieces are not passed on.

        If the body cannot be read to its end, the consumer may be called again, or its result is dropped.
        """


class Record(NamedTuple):
    """A stored record.

    Attributes:
        body: the record itself, opaque to the store.
        attributes: the few values for conditions, the open index and time-to-live; never None.
        rev: 1 when first put, one more with each put or update that names a revision.
        pieces: reads the body; `body` is empty then. Only if the reader sets `held_bytes`, and the store keeps
            the body in another form.
    """

    key: Key
    body: bytes
    attributes: Mapping[str, Scalar]
    rev: int
    pieces: Pieces | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """Holds if the record does not exist."""


class RevIs(NamedTuple):
    """Holds if the record exists in this revision."""

    rev: int


class AttributeIs(NamedTuple):
    """Holds if the record exists and the attribute has this value."""

    name: str
    value: Scalar


Condition = Absent | RevIs | AttributeIs


class Put(NamedTuple):
    """Store the whole record. Its revision is one above `RevIs`, else 1.

    Attributes:
        is_apart: whether the body is stored as a large payload, whatever its size: writes of records are expensive.
    """

    key: Key
    body: bytes
    attributes: Mapping[str, Scalar] = MappingProxyType({})
    when: tuple[Condition, ...] = ()
    is_apart: bool = False


class Update(NamedTuple):
    """Set attributes (None removes one) of an existing record; the revision changes only under `RevIs`."""

    key: Key
    attributes: Mapping[str, Scalar | None]
    when: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the record; without a condition, a missing record is no error."""

    key: Key
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but fail the whole write unless the conditions hold."""

    key: Key
    when: tuple[Condition, ...]


Operation = Put | Update | Delete | Check


class Get(NamedTuple):
    """Read one record; `held_bytes` as in `Range`."""

    key: Key
    held_bytes: int | None = None


class Range(NamedTuple):
    """Read the records of a partition whose sort key lies between `start` and `end`, both included.

    Attributes:
        after: continues after that sort key, in the direction of reading.
        held_bytes: roughly the limit of record bytes that the reader holds at a time. A page may end there, and bodies
            may come as `Record.pieces`.
    """

    pk: str
    start: str = "\x01"
    end: str = LAST_SORT_KEY
    limit: int | None = None
    reverse: bool = False
    after: str | None = None
    held_bytes: int | None = None


class RecordPage(NamedTuple):
    """Some records in the requested order. `after` continues, None at the end; an empty page may follow."""

    records: tuple[Record, ...]
    after: str | None = None


class KeyPage(NamedTuple):
    """Keys of an index. `after` continues, None at the end."""

    keys: tuple[Key, ...]
    after: Key | None = None


def check_operations(operations: Sequence[Operation]) -> None:
    """Raise ValueError for invalid operations: none, over 100, two on one key, an empty key, an invalid `open`."""
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
