"""Webhooks of a tenant: create, change and delete them, and read and repeat their deliveries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import SecretStr

from turnstone.domain.errors import Conflict, FetchRefused, InvalidRequest
from turnstone.domain.webhooks.signing import SECRET_BYTES, secret_of
from turnstone.domain.webhooks.webhooks import TEST_TYPE, Delivery, NewWebhook, SigningSecrets, Webhook, WebhookEvent
from turnstone.store.cleanup.jobs import sent
from turnstone.store.layout.contention import retried
from turnstone.store.layout.idempotency import Once
from turnstone.store.webhooks.deliveries import StoredDelivery
from turnstone.store.webhooks.webhooks import StoredWebhook

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.lists import ListQuery
    from turnstone.domain.turns.attempts import Attempt
    from turnstone.ports.supervision import Jobs
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.ports.webhooks import WebhookSender
    from turnstone.store.webhooks.deliveries import DeliveryStore
    from turnstone.store.webhooks.webhooks import WebhookStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookDeps:
    """Dependencies of webhooks; `random_bytes` returns that number of unpredictable bytes."""

    webhooks: WebhookStore
    deliveries: DeliveryStore
    sender: WebhookSender
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator
    random_bytes: Callable[[int], bytes]


class Revealed(NamedTuple):
    """A webhook with its current secret, which only the answer to its creation or rotation has."""

    webhook: Webhook
    secret: str


class DeliveryPage(NamedTuple):
    """Some deliveries, newest first; `cursor` continues, None at the end."""

    deliveries: tuple[Delivery, ...]
    cursor: str | None


class Webhooks:
    def __init__(self, deps: WebhookDeps) -> None:
        self._deps = deps

    def create(self, caller: Caller, new: NewWebhook, attempt: Attempt) -> Revealed:
        """Create a webhook and return it with its secret.

        Raises:
            InvalidRequest: its URL may not be requested, or the tenant has too many webhooks.
            IdempotencyMismatch: the request's key was used for another body.
        """
        self._check(new.url)
        now = self._deps.clock.now()
        webhook = Webhook(
            webhook_id=self._deps.ids.order_key(now, None),
            url=new.url,
            event_types=new.event_types,
            description=new.description,
            created_at=now,
        )
        stored = self._deps.webhooks.create(
            caller.tenant, StoredWebhook(webhook, SigningSecrets(current=self._secret())), attempt, now
        )
        log.info("webhook %s is created", stored.webhook.webhook_id)
        return _revealed(stored)

    def list(self, caller: Caller) -> tuple[Webhook, ...]:
        """Return the webhooks of the caller's tenant, oldest first."""
        return tuple(stored.webhook for stored in self._deps.webhooks.list(caller.tenant))

    def get(self, caller: Caller, webhook_id: str) -> Webhook:
        """Return the webhook. Raises NotFound."""
        return self._deps.webhooks.load(caller.tenant, webhook_id).webhook

    def update(self, caller: Caller, webhook_id: str, changes: dict[str, Any], attempt: Attempt) -> Webhook:
        """Change fields of the webhook and return it. Raises NotFound, and InvalidRequest for its URL."""
        if "url" in changes:
            self._check(changes["url"])

        def changed(stored: StoredWebhook) -> StoredWebhook:
            webhook = stored.webhook.model_copy(update=changes)
            if changes.get("status") == "disabled":
                webhook = webhook.disabled(stored.webhook.disabled_reason or "requested")
            elif "status" in changes:
                webhook = webhook.model_copy(update={"disabled_reason": None})
            return stored._replace(webhook=webhook)

        return self._deps.webhooks.change(
            caller.tenant, webhook_id, changed, self._once(caller, attempt, webhook_id)
        ).webhook

    def rotate_secret(self, caller: Caller, webhook_id: str, attempt: Attempt) -> Revealed:
        """Give the webhook a new secret; the old one also signs for a day. Raises NotFound."""
        new, now = self._secret(), self._deps.clock.now()
        stored = self._deps.webhooks.change(
            caller.tenant,
            webhook_id,
            lambda found: found._replace(secrets=found.secrets.rotated(new, now)),
            self._once(caller, attempt, webhook_id),
        )
        log.info("the secret of webhook %s is rotated", webhook_id)
        return _revealed(stored)

    def delete(self, caller: Caller, webhook_id: str) -> None:
        """Delete the webhook, which gets no request that begins from now on. Raises NotFound."""
        self._deps.webhooks.delete(caller.tenant, webhook_id)
        log.info("webhook %s is deleted", webhook_id)

    def deliveries(self, caller: Caller, webhook_id: str, query: ListQuery) -> DeliveryPage:
        """Return deliveries of the webhook. Raises NotFound."""
        self._deps.webhooks.load(caller.tenant, webhook_id)
        found: Iterator[Delivery] = self._deps.deliveries.list(
            caller.tenant, webhook_id, query.cursor, self._deps.clock.now()
        )
        some = tuple(islice(found, query.limit))
        has_more = next(found, None) is not None
        return DeliveryPage(some, some[-1].delivery_id if has_more and some else None)

    def resend(self, caller: Caller, webhook_id: str, delivery_id: str, attempt: Attempt) -> Delivery:
        """Send the delivery again, now and with all its tries, whatever became of it. Raises NotFound, InvalidRequest.

        The request has the same id, by which its receiver recognises an event that it has.
        """
        self._refuse_disabled(self.get(caller, webhook_id))

        def begin() -> StoredDelivery:
            now = self._deps.clock.now()
            found = self._deps.deliveries.load(caller.tenant, webhook_id, delivery_id, now)
            again = StoredDelivery(found.delivery.resent(now), found.rev)
            return self._begin(self._once(caller, attempt, delivery_id), again, found.delivery)

        return retried(begin, "the delivery is being tried just now, try again", on=(Conflict,)).delivery

    def send_test(self, caller: Caller, webhook_id: str, attempt: Attempt) -> Delivery:
        """Send the webhook an event of the type `webhook.test`. Raises NotFound, InvalidRequest."""
        self._refuse_disabled(self.get(caller, webhook_id))
        now = self._deps.clock.now()
        order = self._deps.ids.order_key(now, None)
        event = WebhookEvent(
            event_id=f"evt_{order.replace('-', '')}", event_type=TEST_TYPE, created_at=now, data={"id": webhook_id}
        )
        delivery = Delivery(delivery_id=order, webhook_id=webhook_id, event=event, next_try_at=now, created_at=now)
        return self._begin(self._once(caller, attempt, order), StoredDelivery(delivery)).delivery

    def _begin(self, once: Once, stored: StoredDelivery, before: Delivery | None = None) -> StoredDelivery:
        """Store the delivery and send the job of its first try, or return what an earlier attempt began."""
        job, delivery_id = self._deps.deliveries.begin(once, stored, before)
        if job is None:
            return self._deps.deliveries.load(once.tenant, stored.delivery.webhook_id, delivery_id, once.now)
        sent(self._deps.jobs(), job)
        return stored

    def _once(self, caller: Caller, attempt: Attempt, identifier: str) -> Once:
        return Once(caller.tenant, attempt, {"id": identifier}, self._deps.clock.now())

    def _check(self, url: str) -> None:
        try:
            self._deps.sender.check(url)
        except FetchRefused as refused:
            raise InvalidRequest(f"url: {refused}", ("url",)) from refused

    def _secret(self) -> SecretStr:
        return SecretStr(secret_of(self._deps.random_bytes(SECRET_BYTES)))

    @staticmethod
    def _refuse_disabled(webhook: Webhook) -> None:
        if not webhook.is_enabled:
            raise InvalidRequest(f"webhook {webhook.webhook_id!r} is disabled; enable it first")


def _revealed(stored: StoredWebhook) -> Revealed:
    return Revealed(stored.webhook, stored.secrets.current.get_secret_value())
