"""The function that a schedule invokes to look for what nobody looks after."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from turnstone.config import LambdaSettings, is_function, load_settings
from turnstone.edge.loading import keep_loaded, undisturbed

if TYPE_CHECKING:
    from turnstone.bootstrap.core import Core

LEFT_FOR_HAND_OVER = timedelta(seconds=60)
LEFT_FOR_RUNS = timedelta(seconds=300)


class ScheduledSweep:
    """A function that sweeps, and stays while turns that it took over run here."""

    def __init__(self, module: str) -> None:
        self._core: Core | None = None
        if is_function(module):
            self._core = _loaded()
            keep_loaded()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG002 - it only says when
        """Return what the sweep did. Raises StoreUnavailable."""
        if self._core is None:
            self._core = _loaded()
        ends_at = datetime.now(UTC) + timedelta(milliseconds=context.get_remaining_time_in_millis())
        swept = self._core.sweeper.sweep(ends_at - LEFT_FOR_RUNS)
        self._core.recovery.see_out(swept.taken_over, ends_at - LEFT_FOR_HAND_OVER)
        return swept.model_dump(mode="json", exclude={"taken_over"}) | {"taken_over": len(swept.taken_over)}


def _loaded() -> Core:
    with undisturbed():
        from turnstone.bootstrap.aws import build_lambda_core
        from turnstone.edge.logs import log_as_json

        log_as_json()
        core = build_lambda_core(load_settings(LambdaSettings))
        _ = core.sweeper
        return core
