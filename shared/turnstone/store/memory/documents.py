"""Documents of memory banks in the store: a record each, in the order of first insertion, found by a record of its id.

A record is written together with the chunks of its document, so both always agree. Its attribute `state`
differs after every write of the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import Document, DocumentStatus
from turnstone.domain.memory.vector_stores import FileCounts, counts_of
from turnstone.ports.records import Absent, AttributeIs, Check, Delete, Get, Operation, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import (
    all_documents,
    document_key,
    document_name_key,
    removed_document_key,
)
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages

DOCUMENTS_AT_ONCE = 100
REMEMBERED = timedelta(days=1)


class StoredDocument(NamedTuple):
    """A document, the order key of its first insertion, and the state of its record."""

    document: Document
    order: str
    state: str


class DocumentStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def find(self, ref: BankRef, document_ids: Sequence[str]) -> list[StoredDocument | None]:
        """Return each of these documents, at most `DOCUMENTS_AT_ONCE`; None where the bank has none of that id."""
        names = [Get(document_name_key(*ref[:2], document_id)) for document_id in document_ids]
        named, _ = self._store.gather(names, [])
        orders = [str(record.attributes["order"]) for record in named if record is not None]
        if not orders:
            return [None] * len(document_ids)
        records, _ = self._store.gather([Get(document_key(*ref[:2], order)) for order in orders], [])
        found = {each.document.document_id: each for each in map(_stored_in, filter(None, records))}
        return [found.get(document_id) for document_id in document_ids]

    def order_of(self, ref: BankRef, document_id: str) -> str | None:
        """Return the order key of a document, also of one removed in the last day; None for any other id."""
        keys = (document_name_key(*ref[:2], document_id), removed_document_key(*ref[:2], document_id))
        records, _ = self._store.gather(list(map(Get, keys)), [])
        return next((str(record.attributes["order"]) for record in records if record is not None), None)

    def counts(self, refs: Sequence[BankRef]) -> list[FileCounts]:
        """Return the counts of the documents of each bank, by reading all of their records."""
        ranges = [all_documents(*ref[:2]) for ref in refs]
        _, firsts = self._store.gather([], ranges)
        return [
            counts_of(
                _tallied(record)
                for page in pages(self._store, query, first)
                for record in page.records
                if not isinstance(record, UNREADABLE)
            )
            for query, first in zip(ranges, firsts, strict=True)
        ]

    def chunks(self, refs: Sequence[BankRef]) -> list[int]:
        """Return the number of chunks that searches find in each bank, by reading all of its documents' records."""
        ranges = [all_documents(*ref[:2]) for ref in refs]
        _, firsts = self._store.gather([], ranges)
        return [
            sum(
                from_json(record.body).get("chunks", 0)
                for page in pages(self._store, query, first)
                for record in page.records
                if not isinstance(record, UNREADABLE)
            )
            for query, first in zip(ranges, firsts, strict=True)
        ]

    def at(self, ref: BankRef, orders: Sequence[str]) -> dict[str, Document]:
        """Return those of the documents that exist, by their order keys."""
        found: dict[str, Document] = {}
        for begin in range(0, len(orders), DOCUMENTS_AT_ONCE):
            some = orders[begin : begin + DOCUMENTS_AT_ONCE]
            records, _ = self._store.gather([Get(document_key(*ref[:2], order)) for order in some], [])
            read = zip(some, records, strict=True)
            found |= {order: _stored_in(record).document for order, record in read if record is not None}
        return found

    def all(
        self, ref: BankRef, limit: int, after: str | None = None, *, is_reverse: bool = False
    ) -> Iterator[StoredDocument]:
        """Yield the documents after that order key, read lazily, about `limit` at a time; skips unreadable ones."""
        whole = all_documents(ref.tenant, ref.content_id)
        start = None if after is None else document_key(*ref[:2], after).sk
        at_once = min(limit, DOCUMENTS_AT_ONCE)
        for page in pages(self._store, whole._replace(after=start, limit=at_once, reverse=is_reverse)):
            for record in page.records:
                if not isinstance(record, UNREADABLE):
                    yield _stored_in(record)


def creation(ref: BankRef, created: StoredDocument) -> list[Operation]:
    """Return the writes of a new document, whose conditions fail if another one of its id was created."""
    name = document_name_key(*ref[:2], created.document.document_id)
    return [
        Put(name, b"{}", {"order": created.order}, when=(Absent(),)),
        _put(ref, created),
    ]


def replacement(ref: BankRef, replaced: StoredDocument) -> list[Operation]:
    """Return the writes of a document by which it replaces any state of its record, unless that was dropped."""
    name = document_name_key(*ref[:2], replaced.document.document_id)
    return [Check(name, (AttributeIs("order", replaced.order),)), _put(ref, replaced)]


def update(ref: BankRef, before: StoredDocument, document: Document, state: str) -> list[Operation]:
    """Return the write of a document whose record is still as it was."""
    return [_put(ref, StoredDocument(document, before.order, state), before.state)]


def removal(ref: BankRef, dropped: StoredDocument, now: datetime) -> list[Operation]:
    """Return the writes that remove a document, unless that was done; lists may continue after it for a day."""
    document_id = dropped.document.document_id
    name = document_name_key(*ref[:2], document_id)
    position: dict[str, str | int] = {"order": dropped.order, "ttl": int((now + REMEMBERED).timestamp())}
    return [
        Put(removed_document_key(*ref[:2], document_id), b"{}", position),
        Delete(name, (AttributeIs("order", dropped.order),)),
        Delete(document_key(*ref[:2], dropped.order)),
    ]


def _put(ref: BankRef, stored: StoredDocument, before: str | None = None) -> Put:
    when = () if before is None else (AttributeIs("state", before),)
    body = to_json(stored.document.model_dump(mode="json", exclude_defaults=True))
    return Put(document_key(*ref[:2], stored.order), body, {"state": stored.state}, when=when)


def _stored_in(record: Record) -> StoredDocument:
    document = Document.model_validate(from_json(record.body))
    return StoredDocument(document, record.key.sk.partition(":")[2], str(record.attributes["state"]))


def _tallied(record: Record) -> tuple[DocumentStatus, int]:
    """Return the status of a record's document, and the bytes of it that searches find."""
    fields = from_json(record.body)
    return fields["status"], fields.get("size_bytes", 0) if fields.get("chunks") else 0
