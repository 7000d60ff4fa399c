"""The worker that the state machine invokes to reconcile one turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from turnstone.edge.event_function import EventFunction

TIME_TO_HAND_OFF = timedelta(seconds=60)


class TurnWorker(EventFunction):
    """A function that reconciles a turn and, if the turn resumes here, runs until it ends or pauses."""

    def __init__(self, module: str) -> None:
        super().__init__(module, loads="recovery")

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return the time of the turn's next check, see `NextCheck`. Raises StoreUnavailable."""
        from turnstone.domain.refs import TurnRef
        from turnstone.domain.turns.supervision import next_check

        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        outlook = self.core.recovery.see_through(
            TurnRef.model_validate(event), datetime.now(UTC) + left - TIME_TO_HAND_OFF
        )
        return next_check(outlook.status, outlook.check_at, datetime.now(UTC)).model_dump()
