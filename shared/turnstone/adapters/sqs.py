"""Clean-up jobs on AWS: messages in a queue, which hold ids and times only."""

from __future__ import annotations

import math
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.ports import Clock

LONGEST_DELAY_S = 900  # Source: SQS, SendMessage


class SqsJobs:
    """Jobs that a function does which the queue invokes. One due later than a message can wait is not sent."""

    def __init__(self, client: Any, queue_url: str, clock: Clock) -> None:
        self._client = client
        self._queue_url = queue_url
        self._clock = clock

    def send(self, job: Job) -> None:
        """Have the job run soon after it is due. Raises StoreUnavailable."""
        delay_s = max(0, math.ceil((job.due_at - self._clock.now()).total_seconds()))
        if delay_s > LONGEST_DELAY_S:
            return
        try:
            self._client.send_message(QueueUrl=self._queue_url, MessageBody=job.model_dump_json(), DelaySeconds=delay_s)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown")
            raise StoreUnavailable(f"the queue of jobs refused: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the queue of jobs can't be reached: {error}") from error
