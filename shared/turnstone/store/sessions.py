"""Sessions in the store: opening one, and reading one with its turns."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from turnstone.domain.access import Stamp
from turnstone.domain.attempts import Attempt
from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.sessions import Session, SessionRef
from turnstone.ports import RangeStore
from turnstone.records import AttributeIs, Check, Get, Operation, Record
from turnstone.store.agents import ACTIVE, stamp_of_agent
from turnstone.store.frames import wire_part
from turnstone.store.idempotency import Once
from turnstone.store.keys import agent_key, all_turns, session_key, session_list, session_list_key, turn_key
from turnstone.store.listing import Entry, entries_of, put_entry
from turnstone.store.ranges import pages
from turnstone.store.session_records import put_session, session_of
from turnstone.store.whole_turns import is_terminal, whole_state


class SessionStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, tenant: str, session: Session, attempt: Attempt, now: datetime) -> str:
        """Store the session and return its id, or the id the same request was answered with. Raises NotFound."""
        ref = SessionRef(tenant=tenant, agent_id=session.agent_id, session_id=session.session_id)
        agent = agent_key(tenant, session.agent_id)
        writes: list[Operation] = [
            Check(agent, (AttributeIs("status", ACTIVE),)),
            put_session(ref, session),
            put_entry(session_list_key(tenant, session.agent_id, session.order), _shown(session), session.stamp),
        ]
        once = Once(tenant, attempt, {"session_id": session.session_id}, now)
        try:
            return once.write(self._store, writes)["session_id"]
        except Conflict as conflict:
            if conflict.key == agent:
                raise NotFound("agent", session.agent_id) from conflict
            raise

    def entries(self, tenant: str, agent_id: str, after: str | None, limit: int | None) -> Iterator[Entry]:
        """Yield the entries of the list of the agent's sessions behind that place."""
        return entries_of(self._store, session_list(tenant, agent_id), after, limit)

    def read(self, ref: SessionRef, turn_ids: tuple[str, ...] | None = None) -> tuple[Session, Stamp, Iterator[bytes]]:
        """Return the session, its agent's stamp, and its turns as wire JSON, oldest first; only those that are named.

        Turns are read as the iterator is drained, so the session may be of any length. Raises NotFound.
        """
        wanted = [Get(turn_key(ref, turn_id)) for turn_id in dict.fromkeys(turn_ids or ())]
        ranges = [all_turns(ref)] if turn_ids is None else []
        of_session = [Get(session_key(ref)), Get(agent_key(ref.tenant, ref.agent_id))]
        (header, agent, *records), first_pages = self._store.gather([*of_session, *wanted], ranges)
        if header is None or agent is None:
            raise NotFound("session", ref.session_id)
        stamp = stamp_of_agent(agent, ref.agent_id)
        found = [record for record in records if record is not None]
        if turn_ids is None:
            chained = (r for page in pages(self._store, all_turns(ref), first_pages[0]) for r in page.records)
            return session_of(header), stamp, (self._wire(ref, record) for record in chained)
        return session_of(header), stamp, (self._wire(ref, record) for record in sorted(found, key=lambda r: r.key))

    def _wire(self, ref: SessionRef, record: Record) -> bytes:
        if is_terminal(record):
            return wire_part(record.body)
        return whole_state(self._store, ref, record).turn.model_dump_json().encode()


def _shown(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "session_name": session.session_name,
        "started_at": session.started_at,
    }
