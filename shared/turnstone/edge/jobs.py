"""The workers of jobs, each invoked by a queue."""

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
LEFT_FOR_LAST_INSERTION = timedelta(seconds=120)  # to store 50,000 chunks


class JobsWorker(EventFunction):
    """A function that does a part of each job of an event; only failed jobs stay in the queue."""

    left_for_last_part = LEFT_FOR_LAST_PART

    def __init__(self, module: str) -> None:
        super().__init__(module, loads="cleaning")

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Return the failed messages of the event, in the form in which SQS redelivers them."""
        from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        until = datetime.now(UTC) + left - self.left_for_last_part
        return process_partial_response(
            event=event,
            record_handler=lambda record: self._run(record.body, until),
            processor=BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=log),
            context=context,
        )

    def _run(self, message: str, until: datetime) -> None:
        from turnstone.domain.jobs import Job

        self.core.cleaning.run(Job.model_validate_json(message), until)

    def _loaded(self) -> Core:
        with undisturbed():
            import aws_lambda_powertools.utilities.batch  # noqa: F401 - loaded before the first event

        return super()._loaded()


class IngestWorker(JobsWorker):
    """A function that inserts files into memory banks, and objects that the operator puts into the bucket."""

    left_for_last_part = LEFT_FOR_LAST_INSERTION

    def _run(self, message: str, until: datetime) -> None:
        """Do a part of a job, or take the object that an event of EventBridge names."""
        from pydantic_core import from_json

        event = from_json(message)
        if "detail-type" in event:
            self.core.ingesting_services.uploaded_objects.take(event["detail"]["object"]["key"])
        else:
            super()._run(message, until)
