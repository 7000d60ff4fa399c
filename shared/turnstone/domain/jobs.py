"""Background jobs: delete content, end expired resources, ingest documents, or send events to webhooks."""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain, zip_longest
from typing import Literal

from turnstone.domain.refs import SessionRef
from turnstone.domain.values.frozen import Frozen
from turnstone.domain.webhooks.webhooks import WebhookEvent

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
    "send_event",
    "send_webhook",
]


class Job(Frozen):
    """A job, done when its record is gone. It refers to resources by id, and works in any process.

    Attributes:
        agent_id: empty if the job concerns no agent.
        order: the order key of its agent, session or stored chat completion in their list; of a memory bank or a file,
            the id of its content; of an event to send, its id; of a delivery, the id of its webhook.
        name: the id of a memory bank that expires; the provider of the content of a deleted one, empty for this
            server's own store; the record that leads to the content of an insertion; or the id of an insertion, of a
            batch of them, or of a delivery.
        event: that is to be sent, None for all other jobs.
        since: the time of its first cause.
        due_at: the time of its next run.
    """

    kind: JobKind
    tenant: str
    agent_id: str = ""
    session_id: str = ""
    order: str
    name: str = ""
    event: WebhookEvent | None = None
    since: datetime
    due_at: datetime

    @property
    def session_ref(self) -> SessionRef:
        return SessionRef(tenant=self.tenant, agent_id=self.agent_id, session_id=self.session_id)

    def to_json(self) -> str:
        """Return the job as JSON, with a name and an event only if it has them."""
        return self.model_dump_json(exclude={field for field in ("name", "event") if not getattr(self, field)})

    def again_at(self, due_at: datetime) -> "Job":
        """Return the same job, due at that time."""
        return self.model_copy(update={"due_at": due_at})


def by_tenants(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the jobs, one of each tenant after the other, so that none waits for all of another's."""
    of_tenants: dict[str, list[Job]] = {}
    for job in jobs:
        of_tenants.setdefault(job.tenant, []).append(job)
    return tuple(job for job in chain.from_iterable(zip_longest(*of_tenants.values())) if job is not None)
