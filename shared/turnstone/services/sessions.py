"""Sessions: open and read."""

from collections.abc import Iterator

from turnstone.domain.attempts import Attempt
from turnstone.domain.caller import Caller
from turnstone.domain.sessions import Session, SessionRef
from turnstone.ports import Clock, IdGenerator, Supervisor
from turnstone.services.attention import attend_if_due
from turnstone.store.sessions import SessionStore


class Sessions:
    def __init__(self, store: SessionStore, supervisor: Supervisor, clock: Clock, ids: IdGenerator) -> None:
        self._store = store
        self._supervisor = supervisor
        self._clock = clock
        self._ids = ids

    def create(self, caller: Caller, agent_id: str, session_name: str, attempt: Attempt) -> str:
        """Return the new session's id. Raises NotFound for the agent, IdempotencyMismatch."""
        now = self._clock.now()
        session = Session(
            agent_id=agent_id,
            session_id=self._ids.new_id(),
            session_name=session_name,
            started_at=now,
            order=self._ids.order_key(now, None),
        )
        return self._store.create(caller.tenant, session, attempt, now)

    def read(self, ref: SessionRef, turn_ids: tuple[str, ...] | None) -> tuple[Session, Iterator[bytes]]:
        """Return the session and its turns as wire JSON, oldest first. Raises NotFound."""
        session, turns = self._store.read(ref, turn_ids)
        attend_if_due(self._supervisor, self._clock, ref, session)
        return session, turns
