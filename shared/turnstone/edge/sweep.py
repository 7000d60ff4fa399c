"""The scheduled function that reconciles abandoned turns and overdue clean-ups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from turnstone.edge.event_function import EventFunction

TIME_TO_HAND_OFF = timedelta(seconds=60)
LEFT_FOR_RUNS = timedelta(seconds=300)


class ScheduledSweep(EventFunction):
    """A function that sweeps, and runs until the turns that it took over end or pause."""

    def __init__(self, module: str) -> None:
        super().__init__(module, loads="sweeper")

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG002 - it holds the time alone
        """Return the numbers of the sweep. Raises StoreUnavailable."""
        ends_at = datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
        swept = self.core.sweeper.sweep(ends_at - LEFT_FOR_RUNS)
        self.core.recovery.see_out(swept.taken_over, ends_at - TIME_TO_HAND_OFF)
        return swept.model_dump(mode="json", exclude={"taken_over"}) | {"taken_over": len(swept.taken_over)}
