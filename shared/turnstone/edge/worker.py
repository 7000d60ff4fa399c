"""The worker that the state machine invokes to look at one turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from turnstone.config import LambdaSettings, is_function, load_settings
from turnstone.edge.loading import keep_loaded, undisturbed

if TYPE_CHECKING:
    from turnstone.bootstrap.core import Core

LEFT_FOR_HAND_OVER = timedelta(seconds=60)


class TurnWorker:
    """A function that attends to a turn and, if that makes it go on here, stays until it ends or pauses."""

    def __init__(self, module: str) -> None:
        self._core: Core | None = None
        if is_function(module):
            self._core = _loaded()
            keep_loaded()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Return when the machine shall look at the turn again, see `NextLook`. Raises StoreUnavailable."""
        from turnstone.domain.sessions import TurnRef
        from turnstone.domain.supervision import next_look

        if self._core is None:
            self._core = _loaded()
        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        outlook = self._core.recovery.see_through(
            TurnRef.model_validate(event), datetime.now(UTC) + left - LEFT_FOR_HAND_OVER
        )
        return next_look(outlook.status, outlook.look_again_at, datetime.now(UTC)).model_dump()


def _loaded() -> Core:
    with undisturbed():
        from turnstone.bootstrap.aws import build_lambda_core
        from turnstone.edge.logs import log_as_json

        log_as_json()
        core = build_lambda_core(load_settings(LambdaSettings))
        _ = core.recovery
        return core
