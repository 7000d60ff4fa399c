"""A model server's response apart from its answer: the error, and when to retry."""

import json
import random

from urllib3 import Retry
from urllib3.exceptions import InvalidHeader

from turnstone.adapters.models.openai.openai_answer import server_message
from turnstone.adapters.outgoing.exchanges import ExchangeFailed, Response

LONGEST_WAIT_S = 5.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
READ_BYTES = 64 * 1024


def error_text_of(response: Response) -> str:
    """Return the message of an error body, empty if unreadable. Consumes the response."""
    try:
        text = response.start(READ_BYTES).decode("utf-8", "replace")
    except (ExchangeFailed, TimeoutError):
        return ""
    finally:
        response.settle(is_over=False)
    try:
        return server_message(json.loads(text)) or text
    except (ValueError, RecursionError):
        return text


def wait_before_retry(response: Response) -> float | None:
    """Return the seconds to wait before a retry, None if a retry is pointless or too late."""
    if response.status not in RETRIED_STATUSES:
        return None
    wait_s = retry_after_s(response) or 0.0
    return wait_s if wait_s <= LONGEST_WAIT_S else None


def jittered(backoff_s: float) -> float:
    """Return between half and all of the time, so that clients refused together do not return together."""
    return backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def retry_after_s(response: Response) -> float | None:
    """Return the server's requested delay in seconds, None without one."""
    value = response.headers.get("retry-after")
    try:
        return None if value is None else Retry().parse_retry_after(value)
    except (InvalidHeader, ValueError, OverflowError):  # the last two for numbers of thousands of digits, and years
        return None
