"""Messages of Letta's agents: send some as a turn of the agent's main session, and read the turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.letta.agents import MAIN, LettaAgent, LettaFields, calls_agents, main_session
from turnstone.domain.messages.messages import Message
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import NewTurn, TurnState
from turnstone.ports.records import Operation
from turnstone.ports.storage import RangeStore
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.letta.agents import LettaAgents
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.turns.run_request import Opening
from turnstone.services.turns.turns import Turns
from turnstone.store.cleanup.jobs import put_job, sent
from turnstone.store.letta.conversation import turns_before
from turnstone.store.sessions.sessions import SessionStore, job_of


@dataclass(frozen=True, slots=True)
class LettaMessageDeps:
    """Dependencies of Letta's messages.

    Attributes:
        ephemeral_for_s: the lifetime of a session of an agent that keeps none.
        patience_s: the longest wait for the end of the agent's running turn.
        stop_runs: ends the runs of removed turns in this process.
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
    jobs: Callable[[], Jobs]
    stop_runs: Callable[[Callable[[TurnRef], bool]], None]


class LettaMessages:
    def __init__(self, deps: LettaMessageDeps) -> None:
        self._deps = deps

    def send(
        self,
        caller: Caller,
        agent_id: str,
        messages: Sequence[Message],
        attempt: Attempt,
        *,
        keeps_details: bool = False,
    ) -> TurnBroadcast:
        """Begin the turn of the messages; the first one creates the session. For the errors see `Turns.start`.

        Args:
            keeps_details: whether the parts of its inferences are published, and stored for a repeated request.
        """
        ref, opening = self.opening(caller, agent_id, messages)
        if keeps_details:
            opening = opening._replace(new=opening.new.model_copy(update={"keeps_details": True}))
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
            named_by=owner_of(caller) if calls_agents(agent.config) else None,
            origin="letta",
        )
        return ref, Opening(new, create=session, is_session_shared=True, patience_s=self._deps.patience_s)

    def reset(self, caller: Caller, agent_id: str) -> LettaAgent:
        """Remove all messages of the agent by one write, and return it; a running turn can store nothing more.

        Raises NotFound, Forbidden.
        """
        removed: list[Job] = []

        def removal(fields: LettaFields) -> Sequence[Operation]:
            session_id = main_session(agent_id, fields.generation)
            ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)
            session = self._deps.sessions.header(ref)
            removed.clear()
            if session is None:
                return ()
            removed.append(job_of("clean_session", ref, session, self._deps.clock.now()))
            return (*self._deps.sessions.removal(ref, session), *map(put_job, removed))

        changed = self._deps.agents.change(
            caller, agent_id, {}, lambda fields: {"generation": fields.generation + 1}, beside=removal
        )
        for job in removed:
            self._deps.stop_runs(partial(_is_of, job.session_ref))
            sent(self._deps.jobs(), job)
        return changed

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


def _is_of(ref: SessionRef, turn: TurnRef) -> bool:
    return turn.session == ref
