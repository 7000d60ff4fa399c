"""Webhooks of a tenant, the events that they are sent, and the deliveries of these.

Source: the Standard Webhooks specification; the shape of events is that of OpenAI's webhooks.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from pydantic import SecretStr
from pydantic_core import to_json

from turnstone.domain.values.frozen import Frozen

EventType = Literal[
    "turn.awaiting_input",
    "turn.completed",
    "turn.failed",
    "turn.expired",
    "response.completed",
    "response.failed",
    "response.cancelled",
    "response.incomplete",
]
TEST_TYPE = "webhook.test"
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
MAX_WEBHOOKS = 20
# between the tries of a delivery: eight tries within a day
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=4),
    timedelta(hours=7),
    timedelta(hours=10),
)
MOST_TRIES = len(PAUSES) + 1
MOST_NOTED_TRIES = 2 * MOST_TRIES
KEPT = timedelta(days=7)
BOTH_SECRETS = timedelta(hours=24)
GONE = 410

WebhookStatus = Literal["enabled", "disabled"]
DisabledReason = Literal["requested", "gone"]
DeliveryStatus = Literal["pending", "delivered", "failed"]


class WebhookEvent(Frozen):
    """Something that happened in a tenant, as it is reported to webhooks.

    Attributes:
        data: the ids that the event consists of.
        agent_id, session_id: where it happened; empty for a test.
        turn_id: the turn of a response, which may be deleted by itself; empty for any other event.
    """

    event_id: str
    event_type: EventType | Literal["webhook.test"]
    created_at: datetime
    data: dict[str, str]
    agent_id: str = ""
    session_id: str = ""
    turn_id: str = ""

    @property
    def payload(self) -> dict[str, Any]:
        """Return the body of a request to a webhook, as JSON."""
        return {
            "id": self.event_id,
            "object": "event",
            "created_at": int(self.created_at.timestamp()),
            "type": self.event_type,
            "data": self.data,
        }

    @property
    def body(self) -> bytes:
        return to_json(self.payload)


class SigningSecrets(Frozen):
    """The secrets of a webhook: after a rotation, requests are signed with both for a day.

    Attributes:
        current: begins with `whsec_`.
        previous_until: when the previous secret ends; None without one.
    """

    current: SecretStr
    previous: SecretStr | None = None
    previous_until: datetime | None = None

    def rotated(self, new: SecretStr, now: datetime) -> "SigningSecrets":
        """Return the secrets after a rotation."""
        return SigningSecrets(current=new, previous=self.current, previous_until=now + BOTH_SECRETS)

    def valid(self, now: datetime) -> tuple[str, ...]:
        """Return the secrets to sign with, the current one first."""
        current = self.current.get_secret_value()
        if self.previous is None or self.previous_until is None or now >= self.previous_until:
            return (current,)
        return current, self.previous.get_secret_value()


class Webhook(Frozen):
    """A URL that receives events of its tenant, without its secrets.

    Attributes:
        disabled_reason: `gone` after the URL answered 410; None while it is enabled.
    """

    webhook_id: str
    url: str
    event_types: tuple[EventType, ...]
    description: str = ""
    status: WebhookStatus = "enabled"
    disabled_reason: DisabledReason | None = None
    created_at: datetime

    @property
    def is_enabled(self) -> bool:
        return self.status == "enabled"

    @property
    def subscriptions(self) -> tuple[EventType, ...]:
        """The types of events that it is sent now."""
        return self.event_types if self.is_enabled else ()

    def disabled(self, reason: DisabledReason) -> "Webhook":
        return self.model_copy(update={"status": "disabled", "disabled_reason": reason})


class NewWebhook(Frozen):
    """The fields of a webhook that its caller chooses."""

    url: str
    event_types: tuple[EventType, ...]
    description: str = ""


class Try(Frozen):
    """A request of a delivery.

    Attributes:
        status: of the answer, None without a usable one.
        error: why there was none, None with an answer.
    """

    at: datetime
    status: int | None = None
    error: str | None = None

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Delivery(Frozen):
    """The delivery of an event to a webhook.

    Attributes:
        delivery_id: in the order of creation.
        tries: the newest ones, oldest first.
        tries_left: before the delivery fails; a resend begins again with all of them.
        next_try_at: None unless it is pending.
        reason: why it failed; None otherwise.
    """

    delivery_id: str
    webhook_id: str
    event: WebhookEvent
    status: DeliveryStatus = "pending"
    tries: tuple[Try, ...] = ()
    tries_left: int = MOST_TRIES
    next_try_at: datetime | None
    reason: str | None = None
    created_at: datetime

    def after(self, done: Try, now: datetime) -> "Delivery":
        """Return the delivery after a try of it."""
        left = max(0, self.tries_left - 1)
        noted: dict[str, Any] = {"tries": _noted(self.tries, done), "tries_left": left}
        if done.is_accepted:
            return self.model_copy(update={**noted, "status": "delivered", "next_try_at": None})
        if done.status == GONE:
            return self.model_copy(update=noted).failed("the URL is gone: it answered 410")
        if not left:
            return self.model_copy(update=noted).failed(f"none of {MOST_TRIES} tries was accepted")
        return self.model_copy(update={**noted, "next_try_at": now + PAUSES[MOST_TRIES - left - 1]})

    def failed(self, reason: str) -> "Delivery":
        return self.model_copy(update={"status": "failed", "next_try_at": None, "reason": reason})

    def resent(self, now: datetime) -> "Delivery":
        """Return the delivery with all its tries before it, the first of them now."""
        begun = {"status": "pending", "tries_left": MOST_TRIES, "next_try_at": now, "reason": None}
        return self.model_copy(update=begun)


def _noted(tries: Sequence[Try], newest: Try) -> tuple[Try, ...]:
    return (*tries, newest)[-MOST_NOTED_TRIES:]
