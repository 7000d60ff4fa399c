"""Sessions: open, read, list."""

from collections.abc import Callable
from dataclasses import dataclass

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.access.visible_list import Listing
from turnstone.services.turns.supervision import watch_if_due
from turnstone.store.agents.agents import AgentStore
from turnstone.store.sessions.sessions import SessionStore, SessionTurns


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """Dependencies of sessions.

    Attributes:
        ephemeral_for_s: the lifetime after the last use if the agent keeps none.
        check_bank: raises MemoryUnusable unless the caller may see the memory bank of that name.
    """

    store: SessionStore
    agents: AgentStore
    rules: AccessRules
    supervisor: Supervisor
    clock: Clock
    ids: IdGenerator
    ephemeral_for_s: float
    check_bank: Callable[[Caller, str], None]


class Sessions:
    def __init__(self, deps: SessionDeps) -> None:
        self._deps = deps
        self._store = deps.store
        self._agents = deps.agents
        self._rules = deps.rules
        self._clock = deps.clock

    def create(
        self, caller: Caller, agent_id: str, session_name: str, attempt: Attempt, vector_db_id: str | None = None
    ) -> str:
        """Return the new session's id. Raises NotFound for the agent, MemoryUnusable, IdempotencyMismatch.

        Args:
            vector_db_id: a memory bank that the session's turns read.
        """
        is_kept, stamp = self._agents.keeps_sessions(caller.tenant, agent_id)
        self._rules.check_sight(caller, stamp, "agent", agent_id)
        if vector_db_id is not None:
            self._deps.check_bank(caller, vector_db_id)
        now = self._clock.now()
        session = Session(
            agent_id=agent_id,
            session_id=self._deps.ids.new_id(),
            session_name=session_name,
            started_at=now,
            order=self._deps.ids.order_key(now, None),
            stamp=owner_of(caller),
            lives_for_s=None if is_kept else self._deps.ephemeral_for_s,
            vector_db_id=vector_db_id,
        )
        return self._store.create(caller.tenant, session.used(now), attempt, now)

    def read(self, caller: Caller, ref: SessionRef, turn_ids: tuple[str, ...] | None) -> tuple[Session, SessionTurns]:
        """Return the session and its turns as wire JSON, oldest first. Raises NotFound, ContentLost."""
        session, agent_owner, turns = self._store.read(ref, turn_ids)
        check_session(self._rules, caller, session, agent_owner, self._clock.now())
        watch_if_due(self._deps.supervisor, self._clock, ref, session)
        return session, turns

    def list(self, caller: Caller, agent_id: str, query: ListQuery) -> Listing:
        """Return a page of the agent's sessions. Raises NotFound for the agent."""
        stamp = self._agents.stamp(caller.tenant, agent_id)
        self._rules.check_sight(caller, stamp, "agent", agent_id)
        entries = self._store.entries(caller.tenant, agent_id, query.cursor, query.limit, self._clock.now())
        return Listing(entries, query, lambda entry: not entry.is_gone and self._rules.may_see(caller, entry.stamp))
