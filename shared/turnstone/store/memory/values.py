"""Values of banks of keys and values: a record each; a long value is in a record of its own, of one insertion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.records import Delete, Get, Put
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import long_value_key, value_key

LONG_BYTES = 128 * 1024


class StoredValue(NamedTuple):
    """A value with the name it is stored under, and the attributes of its document.

    Attributes:
        insertion_id: of a long value, which names its record; empty for others.
    """

    name: str
    text: str
    attributes: Mapping[str, Any]
    insertion_id: str = ""


class ValueStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def find(self, ref: BankRef, names: Sequence[str]) -> list[StoredValue]:
        """Return the values of these names, in their order, without missing ones. Raises ContentLost."""
        records, _ = self._store.gather([Get(value_key(*ref[:2], name)) for name in names], []) if names else ([], [])
        found = [StoredValue(*from_json(record.body)) for record in records if record is not None]
        long_ones = [each.insertion_id for each in found if each.insertion_id]
        if not long_ones:
            return found
        bodies, _ = self._store.gather([Get(long_value_key(*ref[:2], each)) for each in long_ones], [])
        texts = {each: body.body.decode() for each, body in zip(long_ones, bodies, strict=True) if body is not None}
        return [
            each._replace(text=texts.get(each.insertion_id, each.text))
            for each in found
            if not each.insertion_id or each.insertion_id in texts
        ]

    def long_one(self, ref: BankRef, name: str) -> str:
        """Return the insertion whose record holds the value of this name, empty for a short or missing one."""
        record = self._store.get(value_key(*ref[:2], name))
        return "" if record is None else StoredValue(*from_json(record.body)).insertion_id

    def clear(self, job: Job) -> None:
        """Remove a long value that was replaced or dropped."""
        key = long_value_key(job.tenant, job.order, job.name.partition(":")[2])
        self._store.clear(key.pk, 1, key.sk)


def put_value(ref: BankRef, value: StoredValue) -> list[Put]:
    """Return the writes of a value."""
    name, text, attributes, insertion_id = value
    kept = "" if insertion_id else text
    puts = [Put(value_key(*ref[:2], name), to_json([name, kept, dict(attributes), insertion_id]))]
    if insertion_id:
        puts.append(Put(long_value_key(*ref[:2], insertion_id), text.encode(), is_apart=True))
    return puts


def put_attributes(ref: BankRef, value: StoredValue, attributes: Mapping[str, Any]) -> Put:
    """Return the write of a value's record with other attributes."""
    return put_value(ref, value._replace(attributes=attributes))[0]


def delete_value(ref: BankRef, name: str) -> Delete:
    """Return the write that removes a value's record."""
    return Delete(value_key(*ref[:2], name))
