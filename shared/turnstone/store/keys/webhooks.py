"""Keys of webhooks, which are listed like registered resources, and of their deliveries."""

from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import component, registered_key, registered_partition

WEBHOOK = "webhook"


def webhook_key(tenant: str, webhook_id: str) -> Key:
    return registered_key(tenant, WEBHOOK, webhook_id)


def webhook_list(tenant: str) -> Range:
    """Return the read of a tenant's webhooks, in the order of their ids, and so of creation."""
    return Range(registered_partition(tenant, WEBHOOK))


def delivery_partition(tenant: str, webhook_id: str) -> str:
    """Return the partition of a webhook's deliveries."""
    return f"{component(tenant)}|{WEBHOOK}:{component(webhook_id)}"


def delivery_key(tenant: str, webhook_id: str, delivery_id: str) -> Key:
    """Return the key of a delivery, in the order of the ids, and so of creation."""
    return Key(delivery_partition(tenant, webhook_id), component(delivery_id))
