"""Jobs of webhooks: make the deliveries of an event, and try one of them.

A try ends its job, or replaces it by that of the next try, with its delivery in one write; so a process that dies
anywhere leaves a job that tries again, and a receiver may get an event more than once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnstone.domain.errors import Conflict, FetchFailed, NotFound
from turnstone.domain.webhooks.signing import signed_headers
from turnstone.domain.webhooks.webhooks import GONE, Delivery, Try
from turnstone.store.cleanup.jobs import put_job, sent
from turnstone.store.layout.contention import retried
from turnstone.store.webhooks.deliveries import StoredDelivery, job_of, put_delivery
from turnstone.store.webhooks.webhooks import StoredWebhook

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.jobs import Job
    from turnstone.ports.supervision import Jobs
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.ports.webhooks import WebhookSender
    from turnstone.store.cleanup.jobs import JobStore
    from turnstone.store.webhooks.deliveries import DeliveryStore
    from turnstone.store.webhooks.webhooks import WebhookStore

log = logging.getLogger(__name__)
BUSY = "the deliveries of an event are being made just now, try again"


@dataclass(frozen=True, slots=True)
class SendingDeps:
    """Dependencies of the jobs."""

    job_store: JobStore
    webhooks: WebhookStore
    deliveries: DeliveryStore
    sender: WebhookSender
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator


class WebhookSending:
    def __init__(self, deps: SendingDeps) -> None:
        self._deps = deps

    def make_deliveries(self, job: Job, _until: datetime) -> None:
        """Make a delivery of the event for each webhook that subscribes to it, in the write that ends the job."""
        made = retried(lambda: self._made(job), BUSY, on=(Conflict,))
        if made:
            sent(self._deps.jobs(), *made)

    def _made(self, job: Job) -> list[Job]:
        """Store the deliveries and end the job; return the jobs of their first tries, none after another process."""
        event, now = job.event, self._deps.clock.now()
        if event is None:
            self._deps.job_store.settle(job)
            return []
        webhooks = (stored.webhook for stored in self._deps.webhooks.list(job.tenant))
        deliveries = [
            Delivery(
                delivery_id=self._deps.ids.order_key(now, None),
                webhook_id=webhook.webhook_id,
                event=event,
                next_try_at=now,
                created_at=now,
            )
            for webhook in webhooks
            if event.event_type in webhook.subscriptions
        ]
        jobs = [made for delivery in deliveries if (made := job_of(job.tenant, delivery))]
        writes = [put_delivery(job.tenant, StoredDelivery(delivery)) for delivery in deliveries]
        return jobs if self._deps.job_store.settle(job, *writes, *map(put_job, jobs)) else []

    def deliver(self, job: Job, _until: datetime) -> None:
        """Try the delivery once, unless webhook or session is deleted, or the webhook disabled.

        Raises StoreUnavailable.
        """
        due = self._deps.deliveries.due(job)
        if due.stored is None or due.webhook is None:
            self._deps.job_store.settle(job)
            return
        delivery = due.stored.delivery
        if due.is_about_nothing:
            self._settle(job, due.stored, delivery.failed(f"its {_subject(delivery)} was deleted"))
        elif not due.webhook.webhook.is_enabled:
            self._settle(job, due.stored, delivery.failed("the webhook is disabled"))
        else:
            done = self._tried(due.webhook, delivery)
            if done.error is not None and self._deps.sender.is_stopped:
                return  # this process ends, and leaves the job
            if done.status == GONE:
                self._disable(job)
            self._settle(job, due.stored, delivery.after(done, self._deps.clock.now()))

    def _tried(self, stored: StoredWebhook, delivery: Delivery) -> Try:
        at, body = self._deps.clock.now(), delivery.event.body
        headers = signed_headers(delivery.event.event_id, body, stored.secrets.valid(at), at)
        try:
            status = self._deps.sender.send(stored.webhook.url, headers, body)
        except FetchFailed as failed:
            return Try(at=at, error=str(failed))
        return Try(at=at, status=status)

    def _disable(self, job: Job) -> None:
        """Disable the webhook of a delivery whose URL is gone."""

        def gone(stored: StoredWebhook) -> StoredWebhook:
            return stored._replace(webhook=stored.webhook.disabled("gone")) if stored.webhook.is_enabled else stored

        try:
            self._deps.webhooks.change(job.tenant, job.order, gone)
        except NotFound:
            return  # it was deleted just now
        log.info("webhook %s is disabled: its URL answered 410", job.order)

    def _settle(self, job: Job, stored: StoredDelivery, after: Delivery) -> None:
        """Store the delivery in place of the one as read, with the job of its next try."""
        following = job_of(job.tenant, after)
        writes = [put_delivery(job.tenant, StoredDelivery(after, stored.rev))]
        if following is not None:
            writes.append(put_job(following))
        try:
            is_ours = self._deps.job_store.settle(job, *writes)
        except Conflict:
            return  # it was resent just now, by a job of its own
        if not is_ours:
            return
        last = after.tries[-1] if after.tries else None
        log.info(
            "delivery %s to webhook %s is %s, tries left: %d%s",
            after.delivery_id,
            after.webhook_id,
            after.status,
            after.tries_left,
            f", answer: {last.status or last.error}" if last else "",
        )
        if following is not None:
            sent(self._deps.jobs(), following)


def _subject(delivery: Delivery) -> str:
    return "response" if delivery.event.turn_id else "session"
