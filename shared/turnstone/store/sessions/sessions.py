"""Sessions in the store: create, read with turns, delete."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic_core import from_json

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import Conflict, ContentLost, NotFound, RecordTooNew
from turnstone.domain.jobs import Job, JobKind
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.lost_turns import lost_turn, newer_turn
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import AttributeIs, Check, Delete, Get, Operation, Range, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.agents import ACTIVE
from turnstone.store.agents.implicit import is_implicit, owner_of_answering
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.layout.contention import retried
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.keys import (
    agent_key,
    all_turns,
    session_key,
    session_list,
    session_list_key,
    session_partition,
    turn_key,
    turn_ref_of,
)
from turnstone.store.layout.listing import ENTRIES_AT_ONCE, ListEntry, entries_of, put_entry
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.newer_records import UNREADABLE, NewerRecord
from turnstone.store.layout.ranges import pages
from turnstone.store.sessions.session_records import put_session, session_of
from turnstone.store.sessions.turn_records import is_terminal, whole_state
from turnstone.store.sessions.wire_turns import WireTurn, wire_turn

HELD_BYTES = 128 * 1024  # per reader, of many

log = logging.getLogger(__name__)


class SessionTurns:
    """The turns of a session as wire JSON, read lazily; skips missing ones.

    A turn that this version cannot read is a placeholder, and is not lost.

    Attributes:
        lost: ids of turns whose content is lost, replaced by placeholders; complete once the turns are consumed.
    """

    def __init__(self, store: RangeStore, ref: SessionRef, records: Iterator[Record]) -> None:
        self._store = store
        self._ref = ref
        self._records = records
        self.lost: list[str] = []

    def __iter__(self) -> Iterator[WireTurn]:
        for record in self._records:
            try:
                yield self._wire(record)
            except NotFound:
                continue
            except RecordTooNew:
                yield newer_turn(turn_ref_of(record.key)).model_dump_json().encode()

    def _wire(self, record: Record) -> WireTurn:
        try:
            if is_terminal(record) and not isinstance(record, LostRecord):
                return wire_turn(record)
            state = whole_state(self._store, self._ref, _whole(record))
        except ContentLost:
            state = whole_state(self._store, self._ref, _lost(record))
        except (ValueError, LookupError) as broken:  # log only the type: the message quotes the record
            log.error("cannot parse the record %r: %s", record.key, type(broken).__name__)
            state = lost_turn(turn_ref_of(record.key), TurnStatus(str(record.attributes["status"])))
        if state.is_lost:
            self.lost.append(state.turn_id)
        return state.turn.model_dump_json().encode()


def _whole(record: Record) -> Record:
    """Return the record with its whole body."""
    return record if record.pieces is None else record._replace(body=b"".join(record.pieces()), pieces=None)


def _lost(record: Record) -> Record:
    return LostRecord(record.key, b"", record.attributes, record.rev)


class SessionStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, session: Session, attempt: Attempt, now: datetime) -> str:
        """Store the session and return its id, or the id in the answer to an earlier attempt. Raises NotFound."""
        ref = SessionRef(tenant=tenant, agent_id=session.agent_id, session_id=session.session_id)
        agent = agent_key(tenant, session.agent_id)
        check, *beside = creation(ref, session, now)
        writes: list[Operation] = [check, put_session(ref, session), *beside]
        once = Once(tenant, attempt, {"session_id": session.session_id}, now)
        try:
            return once.write(self._store, writes)["session_id"]
        except Conflict as conflict:
            if conflict.key == agent:
                raise NotFound("agent", session.agent_id) from conflict
            raise

    def entries(
        self, tenant: str, agent_id: str, after: str | None, limit: int | None, now: datetime
    ) -> Iterator[ListEntry]:
        """Yield the list entries of an agent's sessions after that position."""
        entries = entries_of(self._store, session_list(tenant, agent_id), after, limit)
        at_once = ENTRIES_AT_ONCE if limit is None else min(limit + 1, ENTRIES_AT_ONCE)
        while some := list(islice(entries, at_once)):
            yield from self._with_expired(tenant, agent_id, some, now)

    def header(self, ref: SessionRef) -> Session | None:
        """Return the session, without a check of caller or agent, None if missing."""
        record = self._store.get(session_key(ref))
        return None if record is None else session_of(record)

    def visit(self, ref: SessionRef) -> tuple[Session, Ownership]:
        """Return the session and its agent's owner. Raises NotFound.

        A session whose own record has lost its content is returned from its agent's list, for deletion.
        """
        try:
            session, stamp, _ = self.read(ref, ())
        except ContentLost as lost:
            if lost.kind != "session":
                raise
            return self._as_listed(ref, lost)
        return session, stamp

    def removal(self, ref: SessionRef, session: Session) -> tuple[Operation, ...]:
        """Return the writes that hide the session, in the state as read, from every reader and writer."""
        entry = session_list_key(ref.tenant, ref.agent_id, session.order)
        return Delete(session_key(ref), (RevIs(session.rev),)), Delete(entry)

    def delete(self, ref: SessionRef, session: Session, job: Job) -> None:
        """Hide the session and leave a job that removes the rest.

        Raises:
            NotFound: it was deleted in the meantime.
            StoreUnavailable: concurrent changes exhausted the retries.
        """
        newest = session

        def remove() -> None:
            nonlocal newest
            try:
                self._store.write([*self.removal(ref, newest), put_job(job)])
            except Conflict as conflict:
                if conflict.found is None:
                    raise NotFound("session", ref.session_id) from conflict
                newest = session_of(conflict.found)
                raise

        retried(remove, "the session changes too fast, try again")

    def clear(self, job: Job, limit: int) -> bool:
        """Remove the rest of a deleted session; return whether nothing is left."""
        entry = session_list_key(job.tenant, job.agent_id, job.order)
        is_empty = self._store.clear(session_partition(job.session_ref), limit)
        return is_empty and self._store.clear(entry.pk, limit, entry.sk)

    def part_with(self, agent_job: Job, limit: int, now: datetime) -> tuple[Job, ...]:
        """Hide some sessions of a deleted agent; return the jobs that remove the rest, none at the end.

        Raises:
            RecordTooNew: only sessions are left that this version cannot read.
        """
        newer: NewerRecord | None = None
        for page in pages(self._store, Range(session_list(agent_job.tenant, agent_job.agent_id), limit=limit)):
            unreadable = [record for record in page.records if isinstance(record, NewerRecord)]
            if len(unreadable) < len(page.records):
                return self._hidden(agent_job, page.records, now)
            newer = unreadable[0] if unreadable else newer
        if newer is not None:
            raise newer.error
        return ()

    def _hidden(self, agent_job: Job, entries: Sequence[Record], now: datetime) -> tuple[Job, ...]:
        """Hide the sessions of these list entries, without unreadable ones; return the jobs that remove the rest."""
        jobs, writes = [], list[Operation]()
        for record in entries:
            if isinstance(record, NewerRecord):
                continue
            if isinstance(record, LostRecord):  # the id of its session is lost, too
                writes.append(Delete(record.key))
                continue
            session_id: str = from_json(record.body)["session_id"]
            ref = SessionRef(tenant=agent_job.tenant, agent_id=agent_job.agent_id, session_id=session_id)
            about = {"kind": "clean_session", "session_id": session_id, "order": record.key.sk}
            jobs.append(agent_job.model_copy(update={**about, "since": now, "due_at": now}))
            writes += [Delete(session_key(ref)), Delete(record.key), put_job(jobs[-1])]
        if writes:
            self._store.write(writes)
        return tuple(jobs)

    def read(self, ref: SessionRef, turn_ids: tuple[str, ...] | None = None) -> tuple[Session, Ownership, SessionTurns]:
        """Return the session, its agent's owner, and its turns as wire JSON, oldest first; only the named ones.

        Turns are read lazily, so the session may be of any length. Raises NotFound, and
        ContentLost for the session itself and its agent.
        """
        turn_reads = [Get(key, HELD_BYTES) for key in sorted({turn_key(ref, turn_id) for turn_id in turn_ids or ()})]
        turns = all_turns(ref)._replace(held_bytes=HELD_BYTES)
        ranges = [turns] if turn_ids is None else []
        of_session = [Get(session_key(ref)), Get(agent_key(ref.tenant, ref.agent_id))]
        (header, agent, *records), first_pages = self._store.gather([*of_session, *turn_reads], ranges)
        if header is None or (agent is None and not is_implicit(ref.agent_id)):
            raise NotFound("session", ref.session_id)
        stamp = owner_of_answering(agent, ref.agent_id)
        found = [record for record in records if record is not None]
        if turn_ids is None:
            chained = (r for page in pages(self._store, turns, first_pages[0]) for r in page.records)
            return session_of(header), stamp, SessionTurns(self._store, ref, chained)
        return session_of(header), stamp, SessionTurns(self._store, ref, iter(sorted(found, key=lambda r: r.key)))

    def _with_expired(self, tenant: str, agent_id: str, entries: list[ListEntry], now: datetime) -> Iterator[ListEntry]:
        """Yield the entries, with `is_gone` set for expired sessions; reads only those with a past expiry."""
        doubtful = {
            entry.order: session_key(
                SessionRef(tenant=tenant, agent_id=agent_id, session_id=entry.fields["session_id"])
            )
            for entry in entries
            if (ends_at := entry.fields.pop("ends_at", None)) and datetime.fromisoformat(ends_at) <= now
        }
        records, _ = self._store.gather([Get(key) for key in doubtful.values()], []) if doubtful else ([], [])
        headers = dict(zip(doubtful, records, strict=True))
        for entry in entries:
            header = headers.get(entry.order)
            is_read = entry.order in headers and not isinstance(header, UNREADABLE)
            is_gone = is_read and (header is None or session_of(header).is_over(now))
            yield entry._replace(is_gone=True) if is_gone else entry

    def _as_listed(self, ref: SessionRef, lost: ContentLost) -> tuple[Session, Ownership]:
        """Return the session from its agent's list. Raises `lost` if it is not listed."""
        (header, agent), _ = self._store.gather([Get(session_key(ref)), Get(agent_key(ref.tenant, ref.agent_id))], [])
        for entry in entries_of(self._store, session_list(ref.tenant, ref.agent_id), None, None):
            if header is not None and entry.fields["session_id"] == ref.session_id:
                shown = {**entry.fields, "agent_id": ref.agent_id, "order": entry.order, "stamp": entry.stamp}
                session = Session.model_validate({**shown, "rev": header.rev})
                return session, owner_of_answering(agent, ref.agent_id)
        raise lost


def creation(ref: SessionRef, session: Session, now: datetime) -> tuple[Operation, ...]:
    """Return the writes of a new session besides its header; the first conflicts if the agent is gone."""
    agent_stays = Check(agent_key(ref.tenant, ref.agent_id), (AttributeIs("status", ACTIVE),))
    checks = () if is_implicit(ref.agent_id) else (agent_stays,)
    return (
        *checks,
        put_entry(session_list_key(ref.tenant, ref.agent_id, session.order), _shown(session), session.stamp),
        *([put_job(job_of("end_session", ref, session, now, session.ends_at))] if session.ends_at else ()),
    )


def _shown(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "session_name": session.session_name,
        "started_at": session.started_at,
        **({"ends_at": session.ends_at} if session.ends_at else {}),
    }


def job_of(kind: JobKind, ref: SessionRef, session: Session, now: datetime, due_at: datetime | None = None) -> Job:
    """Return a job about the session, by default due now."""
    return Job(
        kind=kind,
        tenant=ref.tenant,
        agent_id=ref.agent_id,
        session_id=ref.session_id,
        order=session.order,
        since=now,
        due_at=due_at or now,
    )
