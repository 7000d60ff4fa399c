"""The workers of jobs, each invoked by a queue."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from turnstone.edge.event_function import EventFunction

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

log = logging.getLogger(__name__)
LEFT_FOR_LAST_PART = timedelta(seconds=20)
DELIVERY = '"kind":"send_webhook"'  # in a job as JSON
LEFT_FOR_LAST_INSERTION = timedelta(seconds=120)  # to store 50,000 chunks


class JobsWorker(EventFunction):
    """A function that does a part of each job of an event; only failed jobs stay in the queue.

    Deliveries to webhooks wait for their receivers, so those of an event are tried at the same time.
    """

    left_for_last_part = LEFT_FOR_LAST_PART

    def __init__(self, module: str) -> None:
        super().__init__(module, loads="cleaning")

    def __call__(self, event: dict[str, Any], context: Any) -> Any:
        """Return the failed messages of the event, in the form in which SQS redelivers them."""
        from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

        left = timedelta(milliseconds=context.get_remaining_time_in_millis())
        until = datetime.now(UTC) + left - self.left_for_last_part
        with ThreadPoolExecutor(len(event["Records"]), thread_name_prefix="deliveries") as pool:
            begun = {
                record["messageId"]: pool.submit(self._run, record["body"], until)
                for record in event["Records"]
                if DELIVERY in record["body"]
            }

            def run(record: SQSRecord) -> None:
                if record.message_id in begun:
                    begun[record.message_id].result()
                else:
                    self._run(record.body, until)

            return process_partial_response(
                event=event,
                record_handler=run,
                processor=BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False, logger=log),
                context=context,
            )

    def _run(self, message: str, until: datetime) -> None:
        from turnstone.domain.jobs import Job

        self.core.cleaning.run(Job.model_validate_json(message), until)


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
