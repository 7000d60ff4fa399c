"""Webhooks in the store, and their subscriptions in the snapshot that each turn of their tenant reads."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.webhooks.webhooks import MAX_WEBHOOKS, SigningSecrets, Webhook
from turnstone.ports.records import Absent, Delete, Get, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.webhooks import WEBHOOK, webhook_key, webhook_list
from turnstone.store.layout.contention import retried
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.layout.keys import directory_key
from turnstone.store.layout.newer_records import UNREADABLE
from turnstone.store.layout.ranges import all_records
from turnstone.store.registry.snapshot import entries_of, put_changed, rev_after

BUSY = "the webhooks are being changed too fast, try again"


class StoredWebhook(NamedTuple):
    """A webhook with its secrets, and the revision of its record: 0 before it is stored."""

    webhook: Webhook
    secrets: SigningSecrets
    rev: int = 0


class WebhookStore:
    def __init__(self, store: RangeStore, forget: Callable[[str, int], None]) -> None:
        """Take the function that invalidates a tenant's snapshot, which each change changes."""
        self._store = store
        self._forget = forget

    def list(self, tenant: str) -> tuple[StoredWebhook, ...]:
        """Return the tenant's webhooks, oldest first, without unreadable ones."""
        records = all_records(self._store, webhook_list(tenant))
        return tuple(stored_webhook(record) for record in records if not isinstance(record, UNREADABLE))

    def load(self, tenant: str, webhook_id: str) -> StoredWebhook:
        """Return the webhook. Raises NotFound."""
        record = self._store.get(webhook_key(tenant, webhook_id))
        if record is None:
            raise NotFound("webhook", webhook_id)
        return stored_webhook(record)

    def create(self, tenant: str, new: StoredWebhook, attempt: Attempt, now: datetime) -> StoredWebhook:
        """Store the webhook, or return the one that an earlier attempt stored.

        Raises InvalidRequest if the tenant has as many as it may have, IdempotencyMismatch, and NotFound if the earlier
        one was deleted.
        """
        once = Once(tenant, attempt, {"webhook_id": new.webhook.webhook_id}, now)

        def write() -> str:
            gets = [Get(directory_key(tenant)), *get_remembered(tenant, attempt)]
            (listed, *remembered), _ = self._store.gather(gets, [])
            if remembered and (earlier := answer_in(remembered[0], attempt, now)):
                return earlier["webhook_id"]
            if len(entries_of(listed).get(WEBHOOK, {})) >= MAX_WEBHOOKS:
                raise InvalidRequest(f"a tenant may have {MAX_WEBHOOKS} webhooks; delete one first")
            changed = _listed(tenant, listed, new.webhook)
            answer = once.write(self._store, [_put(tenant, new), changed])
            self._forget(tenant, rev_after(changed))
            return answer["webhook_id"]

        webhook_id = retried(write, BUSY)
        return new if webhook_id == new.webhook.webhook_id else self.load(tenant, webhook_id)

    def change(
        self,
        tenant: str,
        webhook_id: str,
        change: Callable[[StoredWebhook], StoredWebhook],
        once: Once | None = None,
    ) -> StoredWebhook:
        """Store and return the changed webhook; as it is, if a request that is made `once` did so before.

        Raises NotFound, IdempotencyMismatch.
        """

        def write() -> StoredWebhook:
            gets = [Get(webhook_key(tenant, webhook_id)), Get(directory_key(tenant))]
            (record, listed), _ = self._store.gather(gets, [])
            if record is None:
                raise NotFound("webhook", webhook_id)
            changed = change(stored_webhook(record))
            listing = _listed(tenant, listed, changed.webhook)
            writes = [_put(tenant, changed), listing]
            if once is not None and once.write(self._store, writes) is not once.answer:
                return self.load(tenant, webhook_id)
            if once is None:
                self._store.write(writes)
            self._forget(tenant, rev_after(listing))
            return changed

        return retried(write, BUSY)

    def delete(self, tenant: str, webhook_id: str) -> None:
        """Delete the webhook; its deliveries can't be reached any more, and expire. Raises NotFound."""

        def write() -> None:
            gets = [Get(webhook_key(tenant, webhook_id)), Get(directory_key(tenant))]
            (record, listed), _ = self._store.gather(gets, [])
            if record is None:
                raise NotFound("webhook", webhook_id)
            listing = put_changed(tenant, listed, WEBHOOK, {webhook_id: None})
            self._store.write([Delete(record.key, (RevIs(record.rev),)), listing])
            self._forget(tenant, rev_after(listing))

        retried(write, BUSY)


def stored_webhook(record: Record) -> StoredWebhook:
    """Return the record's webhook."""
    secrets = SigningSecrets.model_validate(private_part(record.body)["secrets"])
    return StoredWebhook(Webhook.model_validate_json(wire_part(record.body)), secrets, record.rev)


def _put(tenant: str, stored: StoredWebhook) -> Put:
    secrets = stored.secrets
    plain = {
        "current": secrets.current.get_secret_value(),
        "previous": secrets.previous.get_secret_value() if secrets.previous else None,
        "previous_until": secrets.previous_until,
    }
    return Put(
        webhook_key(tenant, stored.webhook.webhook_id),
        frame({"secrets": plain}, stored.webhook.model_dump_json().encode()),
        when=(RevIs(stored.rev) if stored.rev else Absent(),),
    )


def _listed(tenant: str, listed: Record | None, webhook: Webhook) -> Put:
    """Return the write of the snapshot, in which a disabled webhook has no subscriptions."""
    return put_changed(tenant, listed, WEBHOOK, {webhook.webhook_id: {"event_types": list(webhook.subscriptions)}})
