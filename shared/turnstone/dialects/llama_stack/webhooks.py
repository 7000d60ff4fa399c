"""Requests and answers about webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from turnstone.dialects.llama_stack.lists import NOTHING
from turnstone.dialects.llama_stack.lists import QUERY as LIST_QUERY
from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.lists import ListQuery, checked_cursor
from turnstone.domain.values.frozen import Frozen, Strict
from turnstone.domain.webhooks.webhooks import (
    EVENT_TYPES,
    Delivery,
    DeliveryStatus,
    DisabledReason,
    EventType,
    NewWebhook,
    Try,
    Webhook,
    WebhookStatus,
)

MOST = 100
USUAL = 20
QUERY: dict[str, dict[str, Any]] = {
    "limit": {
        "description": f"How many deliveries at most, {USUAL} by default.",
        "schema": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST}, {"enum": NOTHING}]},
    },
    "cursor": LIST_QUERY["cursor"],
}


def deliveries_in_query(query: Mapping[str, Sequence[str]]) -> ListQuery:
    """Return the requested part of the list. Raises InvalidRequest."""
    text, cursor = only(query, "limit"), only(query, "cursor")
    number = str(USUAL) if text is None or text in NOTHING else text.removesuffix(".0")
    if not (number.isascii() and number.isdecimal() and len(number) <= len(str(MOST)) and 1 <= int(number) <= MOST):
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST}", ("query", "limit"))
    return ListQuery(limit=int(number), cursor=checked_cursor(cursor) if cursor else None)


def _each_once(event_types: tuple[EventType, ...]) -> tuple[EventType, ...]:
    if len(set(event_types)) < len(event_types):
        raise ValueError("each type may be named once")
    return event_types


WebhookUrl = Annotated[str, Field(min_length=1, max_length=2_000)]
EventTypes = Annotated[
    tuple[EventType, ...], Field(min_length=1, max_length=len(EVENT_TYPES)), AfterValidator(_each_once)
]
Description = Annotated[str, Field(max_length=500)]


class CreateWebhook(Strict):
    url: WebhookUrl
    event_types: EventTypes
    description: Description = ""

    def to_webhook(self) -> NewWebhook:
        return NewWebhook(url=self.url, event_types=self.event_types, description=self.description)


class UpdateWebhook(Strict):
    """The fields to change; those left out or null stay."""

    url: WebhookUrl | None = None
    event_types: EventTypes | None = None
    description: Description | None = None
    status: WebhookStatus | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """Return the fields that the request changes."""
        return {name: value for name, value in self.__dict__.items() if value is not None}


class WebhookEntry(Frozen):
    """A webhook, without its secret."""

    webhook_id: str
    url: str
    event_types: tuple[EventType, ...]
    description: str
    status: WebhookStatus
    disabled_reason: DisabledReason | None
    created_at: datetime

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookEntry:
        return cls(**webhook.__dict__)


class WebhookWithSecret(WebhookEntry):
    """A webhook with its secret, which no later answer shows."""

    secret: str

    @classmethod
    def revealed(cls, webhook: Webhook, secret: str) -> WebhookWithSecret:
        return cls(**webhook.__dict__, secret=secret)


class WebhookList(Frozen):
    """All webhooks of the tenant, oldest first."""

    data: tuple[WebhookEntry, ...]


class WebhookDeleted(Frozen):
    webhook_id: str
    deleted: bool = True


class DeliveryTry(Frozen):
    """A request to the webhook."""

    at: datetime
    status: int | None
    error: str | None

    @classmethod
    def of(cls, done: Try) -> DeliveryTry:
        return cls(**done.__dict__)


class DeliveryEntry(Frozen):
    """The delivery of an event to a webhook."""

    delivery_id: str
    webhook_id: str
    event_id: str
    event_type: str
    status: DeliveryStatus
    reason: str | None
    tries: tuple[DeliveryTry, ...]
    tries_left: int
    next_try_at: datetime | None
    created_at: datetime
    payload: dict[str, Any]

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryEntry:
        return cls(
            delivery_id=delivery.delivery_id,
            webhook_id=delivery.webhook_id,
            event_id=delivery.event.event_id,
            event_type=delivery.event.event_type,
            status=delivery.status,
            reason=delivery.reason,
            tries=tuple(map(DeliveryTry.of, delivery.tries)),
            tries_left=delivery.tries_left if delivery.next_try_at else 0,
            next_try_at=delivery.next_try_at,
            created_at=delivery.created_at,
            payload=delivery.event.payload,
        )


class DeliveryList(Frozen):
    """Deliveries of a webhook, newest first. `cursor` continues, null at the end."""

    data: tuple[DeliveryEntry, ...]
    has_more: bool
    cursor: str | None
