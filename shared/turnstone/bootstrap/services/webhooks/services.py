"""The services of webhooks."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.services.webhooks.sending import WebhookSending
    from turnstone.services.webhooks.webhooks import Webhooks
    from turnstone.store.registry.snapshot import RegistrySnapshot
    from turnstone.store.webhooks.deliveries import DeliveryStore
    from turnstone.store.webhooks.webhooks import WebhookStore


class WebhookServices:
    """The services of webhooks; their subscriptions are listed in the snapshot of the registries."""

    def __init__(self, foundation: Foundation, directory: Callable[[], RegistrySnapshot]) -> None:
        self._foundation = foundation
        self._directory = directory

    @cached_property
    def webhooks(self) -> Webhooks:
        from turnstone.services.webhooks.webhooks import WebhookDeps, Webhooks

        ports = self._foundation.ports
        return Webhooks(
            WebhookDeps(
                webhooks=self._webhook_store,
                deliveries=self._delivery_store,
                sender=ports.webhook_sender,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
                random_bytes=os.urandom,
            )
        )

    @cached_property
    def sending(self) -> WebhookSending:
        from turnstone.services.webhooks.sending import SendingDeps, WebhookSending
        from turnstone.store.cleanup.jobs import JobStore

        ports = self._foundation.ports
        return WebhookSending(
            SendingDeps(
                job_store=JobStore(ports.store),
                webhooks=self._webhook_store,
                deliveries=self._delivery_store,
                sender=ports.webhook_sender,
                jobs=lambda: ports.jobs,
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def _webhook_store(self) -> WebhookStore:
        from turnstone.store.webhooks.webhooks import WebhookStore

        return WebhookStore(self._foundation.ports.store, self._directory().forget)

    @cached_property
    def _delivery_store(self) -> DeliveryStore:
        from turnstone.store.webhooks.deliveries import DeliveryStore

        return DeliveryStore(self._foundation.ports.store)
