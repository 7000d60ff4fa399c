"""What transitions of turns report to webhooks: nothing, at no cost, in a tenant without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.store.keys.webhooks import WEBHOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from turnstone.domain.refs import SessionRef
    from turnstone.ports.supervision import Jobs
    from turnstone.store.registry.snapshot import RegistrySnapshot
    from turnstone.store.webhooks.outbox import Outgoing


class Reporting:
    def __init__(self, directory: RegistrySnapshot, jobs: Callable[[], Jobs]) -> None:
        """Take the snapshot with the subscriptions, and the queue of jobs."""
        self._directory = directory
        self._jobs = jobs

    def outgoing(self, ref: SessionRef, states: Sequence[TurnState]) -> Outgoing | None:
        """Return the events of a transition to these states, None if it reports nothing.

        The webhooks are those of the time at which the turn was last opened or resumed in this process.
        """
        if all(state.status is TurnStatus.IN_PROGRESS for state in states):
            return None
        webhooks = self._directory.last_read(ref.tenant, WEBHOOK)
        if not webhooks:
            return None
        from turnstone.store.webhooks.outbox import outgoing_of  # few tenants have webhooks

        return outgoing_of(ref, states, webhooks, self._jobs)
