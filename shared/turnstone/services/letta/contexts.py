"""Contexts of Letta's agents: their turns, and the part of them that the next inference sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.letta.agents import LettaAgent, main_session
from turnstone.domain.models.routing import RouteOf, resolved_route
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.session_context import SessionContext
from turnstone.domain.turns.turns import TurnState
from turnstone.services.letta.messages import LettaMessages
from turnstone.services.sessions.session_context import SessionContexts


@dataclass(frozen=True, slots=True)
class LettaContexts:
    """Attributes: see `LettaMessages` and `SessionContexts`; `route_of` is of models."""

    messages: LettaMessages
    contexts: SessionContexts
    route_of: RouteOf

    def read(self, caller: Caller, agent_id: str) -> tuple[LettaAgent, SessionContext, Iterator[TurnState]]:
        """Return the agent, its context, and its turns, newest first. Raises NotFound, ContentLost."""
        agent, turns = self.messages.read(caller, agent_id, None)
        session_id = main_session(agent_id, agent.fields.generation)
        ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)
        try:
            return agent, self.contexts.read(caller, ref, has_alerts=True), turns
        except NotFound:  # before its first message
            window = resolved_route(self.route_of, caller.tenant, agent.config.model).context_tokens
            empty = SessionContext(window_tokens=window, budget_tokens=0, token_factor=1.0, summary=None, turns=())
            return agent, empty, turns
