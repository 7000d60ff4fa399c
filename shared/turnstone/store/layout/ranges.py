"""Read ranges to their end."""

from collections.abc import Iterator

from turnstone.ports.records import Range, Record, RecordPage
from turnstone.ports.storage import RangeStore


def pages(store: RangeStore, query: Range, first: RecordPage | None = None) -> Iterator[RecordPage]:
    """Yield the pages of a range one after the other, beginning with one already read."""
    page = first or store.range(query)
    yield page
    while page.after is not None:
        page = store.range(query._replace(after=page.after))
        yield page


def all_records(store: RangeStore, query: Range) -> tuple[Record, ...]:
    """Return every record of a range that is short by design."""
    return tuple(record for page in pages(store, query) for record in page.records)


def records_within(store: RangeStore, query: Range, first: RecordPage) -> tuple[Record, ...]:
    """Return as many records as the range's limit allows, continuing after short pages."""
    records, page = list(first.records), first
    while page.after is not None and query.limit is not None and len(records) < query.limit:
        page = store.range(query._replace(after=page.after, limit=query.limit - len(records)))
        records += page.records
    return tuple(records)
