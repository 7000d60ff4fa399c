"""Work that a request leaves behind: to remove what was deleted, or to end what lived long enough."""

from datetime import datetime
from typing import Literal

from turnstone.domain.refs import SessionRef
from turnstone.domain.values.frozen import Frozen

JobKind = Literal["clean_session", "clean_agent", "end_session", "clean_completion"]


class Job(Frozen):
    """A piece of work, done when its record is gone. It names things by their ids, and is one whatever its process.

    Attributes:
        agent_id: empty where the work is about no agent.
        order: the place of what it is about, an agent, a session or a stored chat completion, in its list.
        since: when there was reason for it first.
        due_at: when it is to be looked at next.
    """

    kind: JobKind
    tenant: str
    agent_id: str = ""
    session_id: str = ""
    order: str
    since: datetime
    due_at: datetime

    @property
    def session_ref(self) -> SessionRef:
        return SessionRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id)

    def again_at(self, due_at: datetime) -> "Job":
        """Return the same work, to be looked at next at that time."""
        return self.model_copy(update={"due_at": due_at})
