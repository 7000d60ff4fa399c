"""Messages of Letta's agents: send some as a turn of the agent's main session, and read the turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.letta.agents import MAIN, LettaAgent, main_session
from turnstone.domain.messages.messages import Message
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import NewTurn, TurnState
from turnstone.ports.storage import RangeStore
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.letta.agents import LettaAgents
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.turns.run_request import Opening
from turnstone.services.turns.turns import Turns
from turnstone.store.letta.conversation import turns_before
from turnstone.store.sessions.sessions import SessionStore


@dataclass(frozen=True, slots=True)
class LettaMessageDeps:
    """Dependencies of Letta's messages.

    Attributes:
        ephemeral_for_s: the lifetime of a session of an agent that keeps none.
        patience_s: the longest wait for the end of the agent's running turn.
    """

    agents: LettaAgents
    turns: Turns
    sessions: SessionStore
    records: RangeStore
    rules: AccessRules
    clock: Clock
    ids: IdGenerator
    ephemeral_for_s: float
    patience_s: float


class LettaMessages:
    def __init__(self, deps: LettaMessageDeps) -> None:
        self._deps = deps

    def send(self, caller: Caller, agent_id: str, messages: Sequence[Message], attempt: Attempt) -> TurnBroadcast:
        """Begin the turn of the messages; the first one creates the session. For the errors see `Turns.start`."""
        ref, opening = self.opening(caller, agent_id, messages)
        return self._deps.turns.start(caller, ref, opening, attempt)

    def opening(self, caller: Caller, agent_id: str, messages: Sequence[Message]) -> tuple[SessionRef, Opening]:
        """Return the opening of the turn of the messages, in the agent's main session. Raises NotFound, ContentLost."""
        agent = self._deps.agents.read(caller, agent_id)
        ref = self._ref(caller, agent)
        now = self._deps.clock.now()
        session = Session(
            agent_id=agent_id,
            session_id=ref.session_id,
            session_name=MAIN,
            started_at=now,
            order=self._deps.ids.order_key(now, None),
            stamp=owner_of(caller),
            lives_for_s=None if agent.config.enable_session_persistence else self._deps.ephemeral_for_s,
        )
        new = NewTurn(
            messages=tuple(messages),
            policy=agent.fields.policy,
            keeps_config=True,
            origin="letta",
        )
        return ref, Opening(new, create=session, patience_s=self._deps.patience_s)

    def read(self, caller: Caller, agent_id: str, last: str | None) -> tuple[LettaAgent, Iterator[TurnState]]:
        """Return the agent and its turns, newest first, from the turn `last` on. Raises NotFound, ContentLost."""
        agent = self._deps.agents.read(caller, agent_id)
        ref = self._ref(caller, agent)
        try:
            session, agent_owner = self._deps.sessions.visit(ref)
        except NotFound:
            return agent, iter(())
        check_session(self._deps.rules, caller, session, agent_owner, self._deps.clock.now())
        return agent, turns_before(self._deps.records, ref, last)

    def _ref(self, caller: Caller, agent: LettaAgent) -> SessionRef:
        session_id = main_session(agent.agent_id, agent.fields.generation)
        return SessionRef(tenant=caller.tenant, agent_id=agent.agent_id, session_id=session_id)
