"""Background jobs of requests: delete content, end expired resources, or ingest documents."""

from datetime import datetime
from typing import Literal

from turnstone.domain.refs import SessionRef
from turnstone.domain.values.frozen import Frozen

JobKind = Literal[
    "clean_session",
    "clean_agent",
    "end_session",
    "clean_completion",
    "clean_bank",
    "clean_provided_bank",
    "clean_batch",
    "clean_segments",
    "end_bank",
    "clean_insertion",
    "clean_file",
    "ingest_document",
]


class Job(Frozen):
    """A job, done when its record is gone. It refers to resources by id, and works in any process.

    Attributes:
        agent_id: empty if the job concerns no agent.
        order: the order key of its agent, session or stored chat completion in their list; of a memory bank or a file,
            the id of its content.
        name: the id of a memory bank that expires; the provider of the content of a deleted one, empty for this
            server's own store; the record that leads to the content of an insertion; or the id of an insertion, or of
            a batch of them.
        since: the time of its first cause.
        due_at: the time of its next run.
    """

    kind: JobKind
    tenant: str
    agent_id: str = ""
    session_id: str = ""
    order: str
    name: str = ""
    since: datetime
    due_at: datetime

    @property
    def session_ref(self) -> SessionRef:
        return SessionRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id)

    def to_json(self) -> str:
        """Return the job as JSON, with a name only if it has one."""
        return self.model_dump_json(exclude=None if self.name else {"name"})

    def again_at(self, due_at: datetime) -> "Job":
        """Return the same job, due at that time."""
        return self.model_copy(update={"due_at": due_at})
