"""Events of turns, each stored as one job in the transaction that causes it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.webhook_events import event_of
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.webhooks.webhooks import WebhookEvent
from turnstone.ports.records import Put
from turnstone.ports.supervision import Jobs
from turnstone.store.cleanup.jobs import put_job, sent


class Outgoing:
    """The events of one transition: writes that are made with it, and jobs that are sent after it."""

    def __init__(self, jobs: Callable[[], Jobs], events: Sequence[Job]) -> None:
        self._jobs = jobs
        self._events = events

    @property
    def writes(self) -> tuple[Put, ...]:
        return tuple(map(put_job, self._events))

    def send(self) -> None:
        """Enqueue the stored events; one that can't be enqueued now is left to the sweeper."""
        if self._events:
            sent(self._jobs(), *self._events)


def outgoing_of(
    ref: SessionRef, states: Sequence[TurnState], webhooks: Mapping[str, Mapping[str, Any]], jobs: Callable[[], Jobs]
) -> Outgoing:
    """Return the events of these new states that one of the webhooks, as the snapshot has them, subscribes to."""
    subscribed = {event_type for webhook in webhooks.values() for event_type in webhook["event_types"]}
    events = (event_of(ref, state) for state in states)
    return Outgoing(
        jobs, [event_job(ref.tenant, event) for event in events if event and event.event_type in subscribed]
    )


def event_job(tenant: str, event: WebhookEvent) -> Job:
    """Return the job that makes the deliveries of an event."""
    return Job(
        kind="send_event",
        tenant=tenant,
        order=event.event_id,
        since=event.created_at,
        due_at=event.created_at,
        event=event,
    )
