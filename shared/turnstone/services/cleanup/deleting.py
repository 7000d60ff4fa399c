"""Deletion of agents and sessions: hidden from every reader at once; a clean-up job removes their records."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.access.access import may_delete
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.store.agents.agents import AgentStore
from turnstone.store.cleanup.jobs import sent
from turnstone.store.layout.contention import retried
from turnstone.store.sessions.sessions import SessionStore, job_of

if TYPE_CHECKING:  # few agents have memory blocks
    from turnstone.services.agents.blocks import Blocks


BUSY = "the agent is being changed too often at once, try again"


class DeletingDeps(NamedTuple):
    """Dependencies of deletion.

    Attributes:
        stop_runs: ends the runs of deleted turns, in a process that runs turns.
        blocks: returns the memory blocks, which few agents have.
    """

    sessions: SessionStore
    agents: AgentStore
    jobs: Jobs
    clock: Clock
    stop_runs: Callable[[Callable[[TurnRef], bool]], None]
    blocks: "Callable[[], Blocks]"


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
        self._deps.sessions.delete(ref, session, job)
        self._deps.stop_runs(lambda turn: turn.session == ref)
        sent(self._deps.jobs, job)
