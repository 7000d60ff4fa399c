"""Banks of keys and values: a document is a value under its id, and a query returns the values of some keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, InvalidRequest
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.chunking import count_tokens
from turnstone.domain.memory.documents import DocumentChunk, GivenDocument
from turnstone.domain.memory.names import names_in
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.supervision import Jobs
from turnstone.services.memory.documents.document_records import (
    DocumentRecords,
    Records,
    until_written,
    with_content,
    writes_of,
)
from turnstone.store.cleanup.jobs import put_job, sent
from turnstone.store.memory.documents import StoredDocument, update
from turnstone.store.memory.insertions import LONG_VALUE
from turnstone.store.memory.values import (
    LONG_BYTES,
    StoredValue,
    ValueStore,
    delete_value,
    put_attributes,
    put_value,
)

MOST_NAMES = 96  # of a question, looked up
REMOVED_AFTER = timedelta(minutes=2)  # longer than a query
JSON = "application/json"


class Values:
    def __init__(self, store: ValueStore, records: DocumentRecords, jobs: Callable[[], Jobs]) -> None:
        self._store = store
        self._records = records
        self._jobs = jobs

    def insert(
        self,
        caller: Caller,  # noqa: ARG002 - as of every kind
        bank: Bank,  # noqa: ARG002
        ref: BankRef,
        given: Sequence[GivenDocument],
        provider_data: ProviderData,  # noqa: ARG002
    ) -> None:
        """Store each document as the value of its id. Raises InvalidRequest for JSON that is none."""
        for each in given:
            _refuse_broken(each)
        last = None
        for each in given:
            last = self._put(ref, each, last)

    def drop(self, ref: BankRef, stored: StoredDocument, records: Records) -> None:
        job = self._cleaning(ref, stored)
        cleaning = [put_job(job)] if job else []
        self._records.contents.write(ref, [*records(), delete_value(ref, stored.document.document_id), *cleaning])
        if job is not None:
            sent(self._jobs(), job)

    def rewrite(self, ref: BankRef, stored: StoredDocument, attributes: Mapping[str, Any], records: Records) -> None:
        values = self._store.find(ref, [stored.document.document_id])
        puts = [put_attributes(ref, each, attributes) for each in values]
        self._records.contents.write(ref, [*records(), *puts])

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        return tuple(_chunk_of(each) for each in self._store.find(ref, [stored.document.document_id]))

    def found(self, ref: BankRef, keys: Sequence[str], question: BankQuestion) -> list[Hit]:
        """Return the values of the keys in their order, missing ones left out; all of them have the score 1.

        Without keys, those of the question count: its words and their sequences, also in lower case.
        """
        if not keys:
            named = names_in(question.text, MOST_NAMES // 2)
            keys = [name for each in named for name in (each, each.lower())]
        values = self._store.find(ref, list(dict.fromkeys(keys)))
        hits = [Hit(_chunk_of(each), each.attributes, 1.0, ref.bank_id) for each in values]
        return [hit for hit in hits if question.filters is None or question.filters.matches(hit.attributes)]

    def _put(self, ref: BankRef, each: GivenDocument, last: str | None) -> str | None:
        """Store one document; return the newest order key, above `last`."""
        new, text = each.given.new, each.given.text
        is_long = len(text) > LONG_BYTES // 4 and len(text.encode("utf-8", "surrogatepass")) > LONG_BYTES

        def act() -> tuple[str | None, Job | None]:
            found = self._records.found(ref, [new.document_id]).get(new.document_id)
            document = with_content(self._records.begun(found, new), 1, each.digest)
            stored = self._records.stored(found, document, last)
            value = StoredValue(new.document_id, text, new.attributes, document.insertion_id if is_long else "")
            old = self._cleaning(ref, found) if found else None
            writes = writes_of(ref, stored, found)
            if found and (is_long or old):  # each long value is removed by the writer that replaces it
                writes = update(ref, found, document, stored.state)
            self._records.contents.write(ref, [*writes, *put_value(ref, value), *([put_job(old)] if old else [])])
            return (last if found else stored.order), old

        order, cleaning = until_written(act, on=(Conflict,))
        if cleaning is not None:
            sent(self._jobs(), cleaning)
        return order

    def _cleaning(self, ref: BankRef, stored: StoredDocument) -> Job | None:
        """Return the job that removes the long value of a document, None if it has none."""
        long_one = self._store.long_one(ref, stored.document.document_id)
        if not long_one:
            return None
        now = self._records.clock.now()
        due_at, name = now + REMOVED_AFTER, f"{LONG_VALUE}:{long_one}"
        return Job(kind="clean_insertion", tenant=ref.tenant, order=ref.content_id, name=name, since=now, due_at=due_at)


def _refuse_broken(document: GivenDocument) -> None:
    new, text = document.given.new, document.given.text
    if new.mime_type.partition(";")[0].strip().lower() != JSON:
        return
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        problem = f"documents.{document.number}.content: must be JSON, as its mime_type is"
        raise InvalidRequest(problem, document.location) from None


def _chunk_of(value: StoredValue) -> DocumentChunk:
    return DocumentChunk(value.name, 0, value.text, count_tokens(value.text), {})
