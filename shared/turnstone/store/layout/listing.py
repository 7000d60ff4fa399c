"""Lists: a partition of small projections, in the order of creation."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.access.access import Ownership
from turnstone.ports.records import Absent, Key, Put, Range, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages

ENTRIES_AT_ONCE = 100


class ListEntry(NamedTuple):
    """A list entry: its position, projection, owner, and whether its content is lost."""

    order: str
    fields: dict[str, Any]
    stamp: Ownership
    is_gone: bool = False


def put_entry(key: Key, fields: dict[str, Any], stamp: Ownership) -> Put:
    """Return the write that adds an entry."""
    body = to_json({**fields, "stamp": stamp.model_dump(exclude_defaults=True)})
    return Put(key, body, when=(Absent(),))


def entries_of(
    store: RangeStore, pk: str, after: str | None, limit: int | None, *, is_reverse: bool = False
) -> Iterator[ListEntry]:
    """Yield the entries of a list after that position, read lazily, little more than the limit at a time.

    Skips an entry whose content is lost, or of a newer version.
    """
    at_once = ENTRIES_AT_ONCE if limit is None else min(limit + 1, ENTRIES_AT_ONCE)
    for page in pages(store, Range(pk, after=after, limit=at_once, reverse=is_reverse)):
        for record in page.records:
            if isinstance(record, UNREADABLE):
                continue
            yield entry_of(record)


def entry_of(record: Record) -> ListEntry:
    """Return the record's entry."""
    fields: dict[str, Any] = from_json(record.body)
    return ListEntry(record.key.sk, fields, Ownership.model_validate(fields.pop("stamp", {})))
