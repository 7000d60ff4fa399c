"""Usage of sessions: a record for each session and day, written with the end of each of its turns.

It repeats the session's header, so writing it twice is harmless, and only a writer of the header writes it. No two
sessions write to the same record, so there is no contention.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from pydantic_core import to_json

from turnstone.domain.access.access import Ownership
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.usage.usage import Tokens
from turnstone.domain.values.frozen import Frozen
from turnstone.ports.records import Get, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.agents import owner_of_agent
from turnstone.store.layout.keys import agent_key, usage_key, usage_names, usage_ranges
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages

KEPT = timedelta(days=400)


class Spent(NamedTuple):
    """A session's usage on a day, by model, and the session's owner."""

    day: date
    agent_id: str
    session_id: str
    by_model: dict[str, Tokens]
    stamp: Ownership

    @property
    def total_tokens(self) -> int:
        return sum(tokens.total_tokens for tokens in self.by_model.values())


class _Body(Frozen):
    by_model: dict[str, Tokens]
    stamp: Ownership = Ownership.model_construct()


def put_spent(ref: SessionRef, session: Session) -> Put:
    """Return the write of the session's usage on its day; the header, in the same write, guards it."""
    assert session.spent is not None, "a turn that took tokens was charged"  # noqa: S101 - every end of a turn does so
    by_model = {model: tokens.model_dump(exclude_defaults=True) for model, tokens in session.spent.by_model.items()}
    body = to_json({"by_model": by_model, "stamp": session.stamp.model_dump(exclude_defaults=True)})
    ends_at = datetime.combine(session.spent.day, datetime.min.time(), UTC) + KEPT
    return Put(usage_key(ref, session.spent.day), body, {"ttl": int(ends_at.timestamp())})


class UsageStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def of_tenant(self, tenant: str, day: date, agent_id: str | None = None) -> Iterator[Spent]:
        """Yield the usage of each session of the tenant, or of the agent, on the day; skips unreadable records."""
        ranges = usage_ranges(tenant, day, agent_id)
        _, first_pages = self._store.gather([], ranges)
        for query, first in zip(ranges, first_pages, strict=True):
            for page in pages(self._store, query, first):
                yield from (_spent(day, record) for record in page.records if not isinstance(record, UNREADABLE))

    def of_session(self, ref: SessionRef, days: Sequence[date]) -> Iterator[Spent]:
        """Yield the session's usage on each of the days."""
        records, _ = self._store.gather([Get(usage_key(ref, day)) for day in days], [])
        for day, record in zip(days, records, strict=True):
            if record is not None:
                yield _spent(day, record)

    def agent_owners(self, tenant: str, agent_ids: Sequence[str]) -> dict[str, Ownership]:
        """Return the owners of the existing, readable agents among those."""
        records, _ = self._store.gather([Get(agent_key(tenant, agent_id)) for agent_id in agent_ids], [])
        found = zip(agent_ids, records, strict=True)
        return {
            agent_id: owner_of_agent(record, agent_id)
            for agent_id, record in found
            if record is not None and not isinstance(record, UNREADABLE)
        }


def _spent(day: date, record: Record) -> Spent:
    body = _Body.model_validate_json(record.body)
    agent_id, session_id = usage_names(record.key.sk)
    return Spent(day, agent_id, session_id, body.by_model, body.stamp)
