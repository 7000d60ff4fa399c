"""Jobs on AWS: messages of ids and times in an SQS queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.ports.system import Clock

LONGEST_DELAY_S = 900  # Source: SQS, SendMessage
BATCH = 10  # Source: SQS, SendMessageBatch
BATCHES_AT_ONCE = 8


class SqsJobs:
    """Sends jobs to the queue that invokes their function; skips jobs due later than SQS's longest delay."""

    def __init__(self, client: Any, queue_url: str | None, clock: Clock) -> None:
        """Without a URL every job is left to the sweeper, which has it."""
        self._client = client
        self._queue_url = queue_url
        self._clock = clock

    def send(self, job: Job) -> None:
        """Send a job, to run soon after it is due. Raises StoreUnavailable."""
        self.send_all((job,))

    def send_all(self, jobs: Sequence[Job]) -> None:
        """Send jobs in batches. Raises StoreUnavailable unless the queue accepted all of them."""
        if self._queue_url is None:
            raise StoreUnavailable("this function has no URL of the queue")
        messages = [message for job in jobs if (message := self._message(job)) is not None]
        if not messages:
            return
        if len(messages) == 1:
            _requested(lambda: self._client.send_message(QueueUrl=self._queue_url, **messages[0]))
            return
        batches = [messages[first : first + BATCH] for first in range(0, len(messages), BATCH)]
        with ThreadPoolExecutor(min(BATCHES_AT_ONCE, len(batches)), thread_name_prefix="jobs") as pool:
            for sending in [pool.submit(self._send_batch, batch) for batch in batches]:
                sending.result()

    def _message(self, job: Job) -> dict[str, Any] | None:
        delay_s = max(0, math.ceil((job.due_at - self._clock.now()).total_seconds()))
        return {"MessageBody": job.to_json(), "DelaySeconds": delay_s} if delay_s <= LONGEST_DELAY_S else None

    def _send_batch(self, messages: Sequence[dict[str, Any]]) -> None:
        entries = [{"Id": str(number), **message} for number, message in enumerate(messages)]
        answer = _requested(lambda: self._client.send_message_batch(QueueUrl=self._queue_url, Entries=entries))
        if refused := answer.get("Failed"):
            raise StoreUnavailable(f"the queue of jobs refused {len(refused)} messages: {refused[0].get('Code')}")


def _requested(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise StoreUnavailable(f"the queue of jobs refused: {code}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"the queue of jobs can't be reached: {error}") from error
