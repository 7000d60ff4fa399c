"""The worker that a queue invokes to do clean-up jobs."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from turnstone.config import LambdaSettings, is_function, load_settings
from turnstone.edge.loading import keep_loaded, undisturbed

if TYPE_CHECKING:
    from turnstone.bootstrap.core import Core

log = logging.getLogger(__name__)
LEFT_FOR_LAST_PART = timedelta(seconds=20)


class JobsWorker:
    """A function that does a part of each job it is given. One that fails stays in the queue, the others don't."""

    def __init__(self, module: str) -> None:
        self._core: Core | None = None
        if is_function(module):
            self._core = _loaded()
            keep_loaded()

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Return which messages of the event are to be given again, as SQS wants to be told."""
        from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

        from turnstone.domain.jobs import Job

        if self._core is None:
            self._core = _loaded()
        cleaning = self._core.cleaning
        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        until = datetime.now(UTC) + left - LEFT_FOR_LAST_PART
        return process_partial_response(
            event=event,
            record_handler=lambda record: cleaning.run(Job.model_validate_json(record.body), until),
            processor=BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=log),
            context=context,
        )


def _loaded() -> Core:
    with undisturbed():
        from turnstone.bootstrap.aws import build_lambda_core
        from turnstone.edge.logs import log_as_json

        log_as_json()
        import aws_lambda_powertools.utilities.batch  # noqa: F401 - the first event shall find it loaded

        core = build_lambda_core(load_settings(LambdaSettings))
        _ = core.cleaning
        return core
