"""Memory banks in the store: one record each in the list of their tenant."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import Bank, bank_of_session
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, AttributeIs, Check, Delete, Operation, Put, Range, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.layout.bank_keys import bank_key, bank_list, content_partition, manifest_key
from turnstone.store.layout.contention import retried
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.keys import session_key
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages
from turnstone.store.memory.contents import EMPTY_MANIFEST

BANKS_AT_ONCE = 100
KIND = "memory bank"


class StoredBank(NamedTuple):
    """A bank, and the id of its content: another one for each bank of the same name."""

    bank: Bank
    content_id: str


class BankStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create_for_session(self, ref: SessionRef, stored: StoredBank) -> StoredBank:
        """Store a bank that lives with the session; return it, or the one that exists under its name.

        The write fails with a deleted session, so that its clean-up misses no bank. Raises NotFound for that one.
        """

        def create() -> StoredBank:
            header = self._store.get(session_key(ref))
            if header is None:
                raise NotFound("session", ref.session_id)
            exists = Check(header.key, (AttributeIs("fence", header.attributes["fence"]),))
            try:
                self._store.write([*_creation(ref.tenant, stored), exists])
            except Conflict as conflict:
                if conflict.found is None or conflict.key == header.key:
                    raise
                return stored_in(conflict.found)
            return stored

        return retried(create, "the session changes too fast, try again")

    def create(self, tenant: str, stored: StoredBank, attempt: Attempt) -> StoredBank | None:
        """Store the bank and return None, or return the one that exists under its name. Raises IdempotencyMismatch."""
        writes = _creation(tenant, stored)
        try:
            Once(tenant, attempt, {}, stored.bank.created_at).write(self._store, writes)
        except Conflict as conflict:
            if conflict.found is None:
                raise
            return stored_in(conflict.found)
        return None

    def get(self, tenant: str, bank_id: str) -> StoredBank:
        """Return the bank. Raises NotFound."""
        record = self._store.get(bank_key(tenant, bank_id))
        if record is None:
            raise NotFound(KIND, bank_id)
        return stored_in(record)

    def all(self, tenant: str) -> Iterator[StoredBank]:
        """Yield the tenant's banks in the order of their ids, read lazily; skips unreadable ones."""
        for page in pages(self._store, Range(bank_list(tenant), limit=BANKS_AT_ONCE)):
            for record in page.records:
                if not isinstance(record, UNREADABLE):
                    yield stored_in(record)

    def delete(self, tenant: str, stored: StoredBank, job: Job) -> None:
        """Hide the bank from every reader and leave a job that removes its content. Raises NotFound."""
        is_same = AttributeIs("content_id", stored.content_id)
        try:
            self._store.write(
                [
                    Delete(bank_key(tenant, stored.bank.bank_id), (is_same,)),
                    Delete(manifest_key(tenant, stored.content_id)),
                    put_job(job),
                ]
            )
        except Conflict as conflict:
            raise NotFound(KIND, stored.bank.bank_id) from conflict

    def delete_of_session(self, ref: SessionRef, now: datetime) -> Job | None:
        """Hide the bank of a deleted session; return the job that removes its content, None without such a bank."""
        record = self._store.get(bank_key(ref.tenant, bank_of_session(ref.session_id)))
        stored = None if record is None else stored_in(record)
        if stored is None or stored.bank.lives_with != ref:
            return None
        job = Job(kind="clean_bank", tenant=ref.tenant, order=stored.content_id, since=now, due_at=now)
        try:
            self.delete(ref.tenant, stored, job)
        except NotFound:
            return None
        return job

    def clear(self, job: Job, limit: int) -> bool:
        """Remove the content of a deleted bank; return whether nothing is left."""
        return self._store.clear(content_partition(job.tenant, job.order), limit)


def _creation(tenant: str, stored: StoredBank) -> list[Operation]:
    bank, content_id = stored
    body = to_json({"content_id": content_id, "bank": bank.model_dump(mode="json")})
    return [
        Put(bank_key(tenant, bank.bank_id), body, {"content_id": content_id}, when=(Absent(),)),
        Put(manifest_key(tenant, content_id), EMPTY_MANIFEST, {"status": "active"}, when=(Absent(),)),
    ]


def stored_in(record: Record) -> StoredBank:
    """Return the bank of a record in the list of its tenant."""
    fields = from_json(record.body)
    return StoredBank(Bank.model_validate(fields["bank"]), fields["content_id"])
