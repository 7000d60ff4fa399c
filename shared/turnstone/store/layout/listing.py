"""Lists: a partition of small projections, in the order of creation."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.access.access import Stamp
from turnstone.ports.records import Absent, Key, Put, Range, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.ranges import pages

ENTRIES_AT_ONCE = 100


class ListEntry(NamedTuple):
    """One entry: its place, what it shows, who may see it, and whether what it shows is gone."""

    order: str
    fields: dict[str, Any]
    stamp: Stamp
    is_gone: bool = False


def put_entry(key: Key, fields: dict[str, Any], stamp: Stamp) -> Put:
    """Return the write that adds an entry."""
    body = to_json({**fields, "stamp": stamp.model_dump(exclude_defaults=True)})
    return Put(key, body, when=(Absent(),))


def entries_of(
    store: RangeStore, pk: str, after: str | None, limit: int | None, *, is_reverse: bool = False
) -> Iterator[ListEntry]:
    """Yield the entries of a list behind that place, read as they are drained, hardly more than the limit at a time.

    An entry whose content is lost is left out.
    """
    at_once = ENTRIES_AT_ONCE if limit is None else min(limit + 1, ENTRIES_AT_ONCE)
    for page in pages(store, Range(pk, after=after, limit=at_once, reverse=is_reverse)):
        for record in page.records:
            if isinstance(record, LostRecord):
                continue
            yield entry_of(record)


def entry_of(record: Record) -> ListEntry:
    """Return the entry that the record holds."""
    fields: dict[str, Any] = from_json(record.body)
    return ListEntry(record.key.sk, fields, Stamp.model_validate(fields.pop("stamp", {})))
