"""Deleting agents and sessions: gone for every reader at once; what they consisted of is left to a clean-up job."""

import logging

from turnstone.domain.caller import Caller
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.sessions import SessionRef
from turnstone.ports import Clock, Jobs
from turnstone.services.access import AccessRules, check_session
from turnstone.store.agents import AgentStore
from turnstone.store.sessions import SessionStore, job_of

log = logging.getLogger(__name__)


class Deleting:
    def __init__(self, stores: tuple[SessionStore, AgentStore], rules: AccessRules, jobs: Jobs, clock: Clock) -> None:
        self._sessions, self._agents = stores
        self._rules = rules
        self._jobs = jobs
        self._clock = clock

    def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Delete the agent with all its sessions. Raises NotFound, Forbidden."""
        stored = self._agents.get(caller.tenant, agent_id)
        self._rules.check_deletion(caller, stored.stamp, "agent", agent_id)
        now = self._clock.now()
        job = Job(
            kind="clean_agent",
            tenant=caller.tenant,
            agent_id=agent_id,
            order=stored.order,
            since=now,
            due_at=now,
        )
        self._agents.delete(caller.tenant, stored, job)
        sent(self._jobs, job)

    def delete_session(self, caller: Caller, ref: SessionRef) -> None:
        """Delete the session with its turns; one that runs can store nothing more. Raises NotFound, Forbidden."""
        session, agent_stamp = self._sessions.visit(ref)
        now = self._clock.now()
        check_session(self._rules, caller, session, agent_stamp, now)
        self._rules.check_deletion(caller, session.stamp, "session", ref.session_id)
        job = job_of("clean_session", ref, session, now)
        self._sessions.delete(ref, session, job)
        sent(self._jobs, job)


def sent(jobs: Jobs, *some: Job) -> None:
    """Send the jobs, whose records are stored: what can't be sent now is found by whoever sends what is due."""
    try:
        for job in some:
            jobs.send(job)
    except StoreUnavailable as unavailable:
        log.warning("a clean-up is left to whoever looks for what is due: %s", unavailable)
