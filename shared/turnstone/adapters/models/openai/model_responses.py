"""What a model server's response says beside its answer: why there is none, when to ask again."""

import json
import random
from contextlib import suppress

from urllib3 import BaseHTTPResponse, Retry
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, InvalidHeader

from turnstone.adapters.models.openai.openai_answer import server_message

LONGEST_WAIT_S = 5.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
READ_BYTES = 64 * 1024
# How long the end of a response may take after the end of its answer, so that the connection can be kept.
SETTLE_S = 0.1
SETTLE_READS = 4


def error_text_of(response: BaseHTTPResponse) -> str:
    """Return what the body of an error says, empty if it can't be read. The response is used up."""
    try:
        text = response.read(READ_BYTES).decode("utf-8", "replace")
    except HTTPError:
        return ""
    finally:
        settle(response, may_be_kept=False)
    try:
        return server_message(json.loads(text)) or text
    except (ValueError, RecursionError):
        return text


def wait_before_retry(response: BaseHTTPResponse) -> float | None:
    """Return the seconds to wait before a retry, None if it is pointless or would come too soon."""
    if response.status not in RETRIED_STATUSES:
        return None
    wait_s = retry_after_s(response) or 0.0
    return wait_s if wait_s <= LONGEST_WAIT_S else None


def jittered(backoff_s: float) -> float:
    """Return between half and all of the time, so that not all who were refused at once come back at once."""
    return backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def retry_after_s(response: BaseHTTPResponse) -> float | None:
    """Return the seconds the server asks to wait, None if it does not say."""
    try:
        return Retry().get_retry_after(response)
    except (InvalidHeader, ValueError, OverflowError):  # the last two for numbers of thousands of digits, and years
        return None


def settle(response: BaseHTTPResponse, may_be_kept: bool) -> None:
    """Give the connection back to the pool if the response ends now, else drop it."""
    connection = response.connection
    if may_be_kept and isinstance(connection, HTTPConnection) and connection.sock is not None:
        connection.sock.settimeout(SETTLE_S)
        with suppress(HTTPError):
            any(not response.read1(READ_BYTES) for _ in range(SETTLE_READS))
    response.close()
    response.release_conn()
