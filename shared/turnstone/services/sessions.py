"""Sessions: open, read, list."""

from collections.abc import Iterator

from turnstone.domain.access import stamp_of
from turnstone.domain.attempts import Attempt
from turnstone.domain.caller import Caller
from turnstone.domain.lists import Wanted
from turnstone.domain.sessions import Session, SessionRef
from turnstone.ports import Clock, IdGenerator, Supervisor
from turnstone.services.access import AccessRules, check_session
from turnstone.services.attention import attend_if_due
from turnstone.services.listing import Listing
from turnstone.store.agents import AgentStore
from turnstone.store.sessions import SessionStore


class Sessions:
    def __init__(
        self,
        stores: tuple[SessionStore, AgentStore],
        rules: AccessRules,
        supervisor: Supervisor,
        clock: Clock,
        ids: IdGenerator,
    ) -> None:
        self._store, self._agents = stores
        self._rules = rules
        self._supervisor = supervisor
        self._clock = clock
        self._ids = ids

    def create(self, caller: Caller, agent_id: str, session_name: str, attempt: Attempt) -> str:
        """Return the new session's id. Raises NotFound for the agent, IdempotencyMismatch."""
        self._check_agent(caller, agent_id)
        now = self._clock.now()
        session = Session(
            agent_id=agent_id,
            session_id=self._ids.new_id(),
            session_name=session_name,
            started_at=now,
            order=self._ids.order_key(now, None),
            stamp=stamp_of(caller),
        )
        return self._store.create(caller.tenant, session, attempt, now)

    def read(
        self, caller: Caller, ref: SessionRef, turn_ids: tuple[str, ...] | None
    ) -> tuple[Session, Iterator[bytes]]:
        """Return the session and its turns as wire JSON, oldest first. Raises NotFound."""
        session, agent_stamp, turns = self._store.read(ref, turn_ids)
        check_session(self._rules, caller, session, agent_stamp)
        attend_if_due(self._supervisor, self._clock, ref, session)
        return session, turns

    def list(self, caller: Caller, agent_id: str, wanted: Wanted) -> Listing:
        """Return the part of the list of the agent's sessions. Raises NotFound for the agent."""
        self._check_agent(caller, agent_id)
        entries = self._store.entries(caller.tenant, agent_id, wanted.cursor, wanted.limit)
        return Listing(entries, wanted, lambda entry: self._rules.may_see(caller, entry.stamp))

    def _check_agent(self, caller: Caller, agent_id: str) -> None:
        stamp = self._agents.stamp(caller.tenant, agent_id)
        self._rules.check_sight(caller, stamp, "agent", agent_id)
