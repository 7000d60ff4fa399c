"""Deletion of agents and sessions: hidden from every reader at once; a clean-up job removes their records."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.access.access import may_delete
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, ContentLost, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.store.agents.agents import AgentChange, AgentStore, StoredAgent
from turnstone.store.cleanup.jobs import put_job, sent
from turnstone.store.layout.contention import retried
from turnstone.store.sessions.sessions import SessionStore, job_of

if TYPE_CHECKING:  # few agents have memory blocks
    from turnstone.services.agents.blocks import Blocks
    from turnstone.store.letta.agents import LettaAgentStore


VERSION_OF_NAMES = "5"  # of a UUID that follows from a name, as the session's of Letta's messages does; others are made
BUSY = "the agent is being changed too often at once, try again"


class DeletingDeps(NamedTuple):
    """Dependencies of deletion.

    Attributes:
        stop_runs: ends the runs of deleted turns, in a process that runs turns.
        blocks: returns the memory blocks, which few agents have.
        letta_agents: returns the store of the fields of Letta's agents.
    """

    sessions: SessionStore
    agents: AgentStore
    jobs: Jobs
    clock: Clock
    stop_runs: Callable[[Callable[[TurnRef], bool]], None]
    blocks: "Callable[[], Blocks]"
    letta_agents: "Callable[[], LettaAgentStore]"


class Deleting:
    def __init__(self, deps: DeletingDeps, rules: AccessRules) -> None:
        self._deps = deps
        self._rules = rules

    def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Delete the agent with all its sessions, of any owner. Raises NotFound, Forbidden."""
        tenant, now = caller.tenant, self._deps.clock.now()

        def act() -> Job:
            position = self._deps.agents.position(tenant, agent_id)
            self._rules.check_deletion(caller, position.stamp, "agent", agent_id)
            job = Job(kind="clean_agent", tenant=tenant, agent_id=agent_id, order=position.order, since=now, due_at=now)
            ids = position.memory_blocks
            links = self._deps.blocks().unlinking(tenant, agent_id, ids) if ids else ()
            self._deps.agents.delete(tenant, agent_id, position, job, links)
            return job

        job = retried(act, BUSY, on=(Conflict,))
        self._deps.stop_runs(lambda turn: (turn.tenant, turn.agent_id) == (caller.tenant, agent_id))
        sent(self._deps.jobs, job)

    def delete_session(self, caller: Caller, ref: SessionRef) -> None:
        """Delete the session with its turns; a running turn can store nothing more. Raises NotFound, Forbidden."""
        session, agent_owner = self._deps.sessions.visit(ref)
        now = self._deps.clock.now()
        if session.is_over(now):
            raise NotFound("session", ref.session_id)
        if not may_delete(caller, session.stamp):  # the right to delete does not need that to see
            check_session(self._rules, caller, session, agent_owner, now)
        self._rules.check_deletion(caller, session.stamp, "session", ref.session_id)
        job = job_of("clean_session", ref, session, now)
        if not (ref.session_id[14:15] == VERSION_OF_NAMES and self._try_renew(ref, job)):
            self._deps.sessions.delete(ref, session, job)
        self._deps.stop_runs(lambda turn: turn.session == ref)
        sent(self._deps.jobs, job)

    def _try_renew(self, ref: SessionRef, job: Job) -> bool:
        """Delete the session with the messages of one of Letta's agents; return whether it is that session.

        The next message gets a session of another id: one of the same id would be removed by the job.
        """
        from turnstone.domain.letta.agents import main_session  # deferred: few sessions are of Letta's agents
        from turnstone.store.letta.agents import put_fields

        is_renewed = False

        def act(found: StoredAgent) -> AgentChange:
            nonlocal is_renewed
            fields = self._deps.letta_agents().fields(ref.tenant, ref.agent_id)
            session = self._deps.sessions.header(ref)
            is_renewed = session is not None and main_session(ref.agent_id, fields.generation) == ref.session_id
            if session is None or not is_renewed:
                return AgentChange(found.agent.agent_config)
            renewed = fields.model_copy(update={"generation": fields.generation + 1})
            writes = (put_fields(ref.tenant, ref.agent_id, renewed), *self._deps.sessions.removal(ref, session))
            return AgentChange(found.agent.agent_config, (*writes, put_job(job)))

        with suppress(ContentLost, NotFound):  # of the agent, which then has no next message; responses have none
            self._deps.agents.change(ref.tenant, ref.agent_id, act)
        return is_renewed
