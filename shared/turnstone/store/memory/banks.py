"""Memory banks in the store: one record each in the list of their tenant."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from pydantic_core import from_json, to_json

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, Bank
from turnstone.domain.memory.lent_banks import archive_of, bank_of_session
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import (
    Absent,
    AttributeIs,
    Check,
    Condition,
    Delete,
    Operation,
    Put,
    Range,
    Record,
    RevIs,
)
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.keys.banks import (
    all_sources,
    bank_key,
    bank_list,
    content_partition,
    manifest_key,
    source_name_key,
    sources_named,
)
from turnstone.store.layout.contention import retried
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.keys import agent_key, session_key
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages
from turnstone.store.memory.bank_records import EMPTY_MANIFEST

BANKS_AT_ONCE = 100
KIND = "memory bank"
MADE = "bank_id"
TOUCHED_EVERY = timedelta(hours=1)


class StoredBank(NamedTuple):
    """A bank in the store.

    Attributes:
        content_id: the id of its content, another one for each bank of the same name.
        used_at: the time of the last change, and in a bank that expires of the last query or insertion, in steps of up
            to an hour; None before.
        expiry: the cause of the job that ends the bank: its creation, or the change of its expiry.
        rev: the revision of its record, 0 for one that is not stored yet.
    """

    bank: Bank
    content_id: str
    used_at: datetime | None = None
    expiry: str = ""
    rev: int = 0

    @property
    def ends_at(self) -> datetime | None:
        """The time from which the bank is gone unless it is used, None for never."""
        if self.bank.expires_after_s is None or self.used_at is None:
            return None
        return self.used_at + timedelta(seconds=self.bank.expires_after_s)

    def is_over(self, now: datetime) -> bool:
        """Return whether the bank has expired."""
        return self.ends_at is not None and now >= self.ends_at

    def needs_touch(self, now: datetime) -> bool:
        """Return whether a use now is to be recorded."""
        if self.bank.expires_after_s is None or self.used_at is None:
            return False
        return now - self.used_at >= min(TOUCHED_EVERY, timedelta(seconds=self.bank.expires_after_s / 8))


def with_expiry(bank: Bank, content_id: str, now: datetime, rev: int = 0) -> StoredBank:
    """Return the bank as it is stored when it is created, or its settings change, at that time."""
    if bank.expires_after_s is None:
        return StoredBank(bank, content_id, rev=rev)
    return StoredBank(bank, content_id, now, now.isoformat(), rev)


class BankStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create_for_session(self, ref: SessionRef, stored: StoredBank) -> StoredBank:
        """Store a bank that lives with the session; return it, or the one that exists under its name.

        The write fails with a deleted session, so that its clean-up misses no bank. Raises NotFound for that one.
        """

        def exists() -> Check:
            header = self._store.get(session_key(ref))
            if header is None:
                raise NotFound("session", ref.session_id)
            return Check(header.key, (AttributeIs("fence", header.attributes["fence"]),))

        create = partial(self._create_beside, ref.tenant, stored, exists)
        return retried(create, "the session changes too fast, try again")

    def create_for_agent(self, tenant: str, agent_id: str, stored: StoredBank) -> StoredBank:
        """Store a bank that lives with the agent; return it, or the one that exists under its name.

        Raises NotFound for a deleted agent.
        """

        def exists() -> Check:
            record = self._store.get(agent_key(tenant, agent_id))
            if record is None:
                raise NotFound("agent", agent_id)
            return Check(record.key, (RevIs(record.rev),))

        create = partial(self._create_beside, tenant, stored, exists)
        return retried(create, "the agent changes too fast, try again", on=(Conflict,))

    def _create_beside(self, tenant: str, stored: StoredBank, exists: Callable[[], Check]) -> StoredBank:
        check = exists()
        try:
            self._store.write([*_creation(tenant, stored), check])
        except Conflict as conflict:
            if conflict.found is None or conflict.key == check.key:
                raise
            return stored_in(conflict.found)
        return stored

    def create(self, tenant: str, stored: StoredBank, attempt: Attempt) -> StoredBank | None:
        """Store the bank and return None, or return the one that exists under its name, or that of an earlier attempt.

        Raises:
            IdempotencyMismatch: the request's key was used for another body.
            NotFound: an earlier attempt made a bank under another name, which is deleted.
        """
        writes, name = _creation(tenant, stored), stored.bank.bank_id
        try:
            found = Once(tenant, attempt, {MADE: name}, stored.bank.created_at).write(self._store, writes)
        except Conflict as conflict:
            if conflict.found is None:
                raise
            return stored_in(conflict.found)
        made = found.get(MADE, name)
        return None if made == name else self.get(tenant, made)

    def get(self, tenant: str, bank_id: str) -> StoredBank:
        """Return the bank. Raises NotFound."""
        stored = self.find(tenant, bank_id)
        if stored is None:
            raise NotFound(KIND, bank_id)
        return stored

    def all(self, tenant: str) -> Iterator[StoredBank]:
        """Yield the tenant's banks in the order of their ids, read lazily; skips unreadable ones."""
        for page in pages(self._store, Range(bank_list(tenant), limit=BANKS_AT_ONCE)):
            for record in page.records:
                if not isinstance(record, UNREADABLE):
                    yield stored_in(record)

    def sources(self, tenant: str, after: str | None, limit: int) -> Iterator[StoredBank]:
        """Yield the sources after the one of that id, in the order of their creation, read lazily."""
        start = None if after is None else bank_key(tenant, after).sk
        query = all_sources(tenant)._replace(after=start, limit=min(limit, BANKS_AT_ONCE))
        for page in pages(self._store, query):
            for record in page.records:
                if not isinstance(record, UNREADABLE) and (stored := stored_in(record)).bank.source is not None:
                    yield stored

    def ids_named(self, tenant: str, name: str) -> Iterator[str]:
        """Yield the ids of the sources of that name, in the order of their creation, read lazily."""
        for page in pages(self._store, sources_named(tenant, name)._replace(limit=BANKS_AT_ONCE)):
            yield from (record.key.sk.rpartition(":")[2] for record in page.records)

    def find(self, tenant: str, bank_id: str) -> StoredBank | None:
        """Return the bank, None if it is missing."""
        record = self._store.get(bank_key(tenant, bank_id))
        return None if record is None else stored_in(record)

    def replace(self, tenant: str, before: StoredBank, changed: StoredBank) -> None:
        """Store other settings of a bank. Raises Conflict if it was changed or deleted since it was read."""
        writes = [_put(tenant, changed, RevIs(before.rev)), *_ending(tenant, changed)]
        if before.bank.name != changed.bank.name:
            writes += [*_unnaming(tenant, before.bank), *_naming(tenant, changed.bank)]
        self._store.write(writes)

    def touch(self, tenant: str, stored: StoredBank, now: datetime) -> None:
        """Record a use of the bank, if it exists."""
        try:
            self._store.write([_put(tenant, stored._replace(used_at=now), RevIs(stored.rev))])
        except Conflict:
            return  # it was changed or deleted since, or another process has recorded a use

    def delete(self, tenant: str, stored: StoredBank, job: Job) -> None:
        """Hide the bank from every reader and leave a job that removes its content. Raises NotFound."""
        try:
            self._store.write([*removal(tenant, stored), put_job(job)])
        except Conflict as conflict:
            raise NotFound(KIND, stored.bank.bank_id) from conflict

    def delete_of_session(self, ref: SessionRef, now: datetime) -> Job | None:
        """Hide the bank of a deleted session; return the job that removes its content, None without such a bank."""
        stored = self.find(ref.tenant, bank_of_session(ref.session_id))
        if stored is None or stored.bank.lives_with != ref:
            return None
        return self._hide(ref.tenant, stored, now)

    def delete_of_agent(self, tenant: str, agent_id: str, now: datetime) -> Job | None:
        """Hide the archival memory of a deleted agent; return the job that removes its content, None without one."""
        stored = self.find(tenant, archive_of(agent_id))
        if stored is None or stored.bank.lives_with_agent != agent_id:
            return None
        return self._hide(tenant, stored, now)

    def _hide(self, tenant: str, stored: StoredBank, now: datetime) -> Job | None:
        job = cleaning_of(tenant, stored, now)
        try:
            self.delete(tenant, stored, job)
        except NotFound:
            return None
        return job

    def clear(self, job: Job, limit: int) -> bool:
        """Remove the content of a deleted bank; return whether nothing is left."""
        return self._store.clear(content_partition(job.tenant, job.order), limit)


def _creation(tenant: str, stored: StoredBank) -> list[Operation]:
    manifest = manifest_key(tenant, stored.content_id)
    return [
        _put(tenant, stored, Absent()),
        Put(manifest, EMPTY_MANIFEST, {"status": "active"}, when=(Absent(),)),
        *_ending(tenant, stored),
        *_naming(tenant, stored.bank),
    ]


def cleaning_of(tenant: str, stored: StoredBank, now: datetime) -> Job:
    """Return the job that removes the content of a bank which is deleted now."""
    provider_id = stored.bank.provider_id
    job = Job(kind="clean_bank", tenant=tenant, order=stored.content_id, since=now, due_at=now)
    if provider_id == EMBEDDED_PROVIDER:
        return job
    return job.model_copy(update={"kind": "clean_provided_bank", "name": provider_id})


def removal(tenant: str, stored: StoredBank, *, if_unused: bool = False) -> list[Operation]:
    """Return the writes that hide a bank from every reader.

    Args:
        if_unused: only if it was neither used nor changed since it was read.
    """
    same: Condition = RevIs(stored.rev) if if_unused else AttributeIs("content_id", stored.content_id)
    return [
        Delete(bank_key(tenant, stored.bank.bank_id), (same,)),
        Delete(manifest_key(tenant, stored.content_id)),
        *_unnaming(tenant, stored.bank),
    ]


def _naming(tenant: str, bank: Bank) -> list[Operation]:
    """Return the write by which a source is found by its name, none for another bank."""
    return [Put(source_name_key(tenant, bank.name, bank.bank_id), b"{}")] if bank.source and bank.name else []


def _unnaming(tenant: str, bank: Bank) -> list[Operation]:
    return [Delete(source_name_key(tenant, bank.name, bank.bank_id))] if bank.source and bank.name else []


def _put(tenant: str, stored: StoredBank, when: Condition) -> Put:
    bank, content_id, used_at, expiry, _ = stored
    attributes: dict[str, str | int] = {"content_id": content_id}
    if used_at is not None:
        attributes |= {"used_at": _seconds(used_at), "expiry": expiry}
    unused = {name for name in ("lives_with_agent", "source") if getattr(bank, name) is None}
    body = to_json({"content_id": content_id, "bank": bank.model_dump(mode="json", exclude=unused)})
    return Put(bank_key(tenant, bank.bank_id), body, attributes, when=(when,))


def _ending(tenant: str, stored: StoredBank) -> list[Operation]:
    """Return the write of the job that ends a bank, none for a bank that never expires."""
    if stored.ends_at is None or stored.used_at is None:
        return []
    since, name = stored.used_at, stored.bank.bank_id
    job = Job(kind="end_bank", tenant=tenant, order=stored.content_id, name=name, since=since, due_at=stored.ends_at)
    return [put_job(job)]


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def stored_in(record: Record) -> StoredBank:
    """Return the bank of a record in the list of its tenant."""
    fields = from_json(record.body)
    used_at = record.attributes.get("used_at")
    return StoredBank(
        Bank.model_validate(fields["bank"]),
        fields["content_id"],
        None if used_at is None else datetime.fromtimestamp(int(used_at), UTC),
        str(record.attributes.get("expiry", "")),
        record.rev,
    )
