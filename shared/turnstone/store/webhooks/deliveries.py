"""Deliveries to webhooks: each one a record that expires, and while it is pending a job."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.errors import NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef
from turnstone.domain.webhooks.webhooks import KEPT, Delivery, WebhookEvent
from turnstone.ports.records import Absent, Delete, Get, Key, Operation, Put, Range, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.implicit import is_implicit
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.keys.responses import request_key
from turnstone.store.keys.webhooks import delivery_key, delivery_partition, webhook_key
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.keys import agent_key, job_key, session_key
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import pages
from turnstone.store.webhooks.webhooks import StoredWebhook, stored_webhook

AT_ONCE = 100
UNREAD = 1  # bytes of a body that are of no interest, if it is a payload


class StoredDelivery(NamedTuple):
    """A delivery, and the revision of its record: 0 before it is stored."""

    delivery: Delivery
    rev: int = 0


class Due(NamedTuple):
    """What a try needs. `is_about_nothing` if the session or agent of the event is gone; None: the record is gone."""

    webhook: StoredWebhook | None
    stored: StoredDelivery | None
    is_about_nothing: bool


class DeliveryStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def load(self, tenant: str, webhook_id: str, delivery_id: str, now: datetime) -> StoredDelivery:
        """Return the delivery of a webhook. Raises NotFound for either."""
        gets = [Get(webhook_key(tenant, webhook_id)), Get(delivery_key(tenant, webhook_id, delivery_id))]
        (webhook, record), _ = self._store.gather(gets, [])
        if webhook is None:
            raise NotFound("webhook", webhook_id)
        if record is None or _is_over(record, now):
            raise NotFound("delivery", delivery_id)
        return _stored(record)

    def list(self, tenant: str, webhook_id: str, after: str | None, now: datetime) -> Iterator[Delivery]:
        """Yield the deliveries of the webhook after that one, newest first, without unreadable ones."""
        query = Range(delivery_partition(tenant, webhook_id), after=after, limit=AT_ONCE, reverse=True)
        for page in pages(self._store, query):
            for record in page.records:
                if not isinstance(record, UNREADABLE) and not _is_over(record, now):
                    yield _stored(record).delivery

    def due(self, job: Job) -> Due:
        """Return the delivery of the job with its webhook."""
        about = _about(job.tenant, job.event) if job.event else ()
        keys = [webhook_key(job.tenant, job.order), delivery_key(job.tenant, job.order, job.name)]
        exist = [Get(key, held_bytes=UNREAD) for key in about]
        (webhook, delivery, *found), _ = self._store.gather([*map(Get, keys), *exist], [])
        return Due(
            None if webhook is None else stored_webhook(webhook),
            None if delivery is None else _stored(delivery),
            None in found,
        )

    def begin(self, once: Once, stored: StoredDelivery, before: Delivery | None = None) -> tuple[Job | None, str]:
        """Store a delivery with the job of its next try, in place of that of the delivery `before`.

        Returns the job, None if an earlier attempt of the request did so, and the id of the delivery.

        Raises Conflict, IdempotencyMismatch.
        """
        tenant = once.tenant
        writes: list[Operation] = [put_delivery(tenant, stored)]
        job = job_of(tenant, stored.delivery)
        earlier = job_of(tenant, before) if before else None
        if job is not None:
            writes.append(put_job(job))
        if earlier is not None and (job is None or job_key(earlier) != job_key(job)):
            writes.append(Delete(job_key(earlier)))
        answer = once.write(self._store, writes)
        return job if answer is once.answer else None, answer["id"]


def put_delivery(tenant: str, stored: StoredDelivery) -> Operation:
    """Return the write of a delivery, which expires a while after its creation or its last try."""
    delivery = stored.delivery
    last = max([delivery.created_at, *(each.at for each in delivery.tries), *_times(delivery)])
    return Put(
        delivery_key(tenant, delivery.webhook_id, delivery.delivery_id),
        delivery.model_dump_json().encode(),
        {"ttl": int((last + KEPT).timestamp())},
        (RevIs(stored.rev) if stored.rev else Absent(),),
    )


def _about(tenant: str, event: WebhookEvent) -> tuple[Key, ...]:
    """Return the keys of session, agent and response of the event, without which it is not sent."""
    if not event.session_id:
        return ()
    ref = SessionRef(tenant=tenant, agent_id=event.agent_id, session_id=event.session_id)
    agent = () if is_implicit(event.agent_id) else (agent_key(tenant, event.agent_id),)
    response = (request_key(ref.turn(event.turn_id)),) if event.turn_id else ()
    return session_key(ref), *agent, *response


def job_of(tenant: str, delivery: Delivery) -> Job | None:
    """Return the job of the delivery's next try, None without one."""
    if delivery.next_try_at is None:
        return None
    return Job(
        kind="send_webhook",
        tenant=tenant,
        order=delivery.webhook_id,
        name=delivery.delivery_id,
        since=delivery.created_at,
        due_at=delivery.next_try_at,
        event=delivery.event,
    )


def _times(delivery: Delivery) -> tuple[datetime, ...]:
    return () if delivery.next_try_at is None else (delivery.next_try_at,)


def _stored(record: Record) -> StoredDelivery:
    return StoredDelivery(Delivery.model_validate_json(record.body), record.rev)


def _is_over(record: Record, now: datetime) -> bool:
    return int(record.attributes["ttl"]) <= now.timestamp()
