"""The worker of clean-up jobs, invoked by a queue."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from turnstone.edge.cold_start import undisturbed
from turnstone.edge.event_function import EventFunction

if TYPE_CHECKING:
    from turnstone.bootstrap.core import Core

log = logging.getLogger(__name__)
LEFT_FOR_LAST_PART = timedelta(seconds=20)


class JobsWorker(EventFunction):
    """A function that does a part of each job of an event; only failed jobs stay in the queue."""

    def __init__(self, module: str) -> None:
        super().__init__(module, loads="cleaning")

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Return the failed messages of the event, in the form in which SQS redelivers them."""
        from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

        from turnstone.domain.jobs import Job

        cleaning = self.core.cleaning
        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        until = datetime.now(UTC) + left - LEFT_FOR_LAST_PART
        return process_partial_response(
            event=event,
            record_handler=lambda record: cleaning.run(Job.model_validate_json(record.body), until),
            processor=BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=log),
            context=context,
        )

    def _loaded(self) -> Core:
        with undisturbed():
            import aws_lambda_powertools.utilities.batch  # noqa: F401 - loaded before the first event

        return super()._loaded()
