"""A model server's response apart from its answer: the error, and when to retry."""

import json
import random
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice

from urllib3 import BaseHTTPResponse, Retry
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, InvalidHeader

from turnstone.adapters.models.openai.openai_answer import server_message

LONGEST_WAIT_S = 5.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
READ_BYTES = 64 * 1024
# Longest wait for the end of a response after the end of its answer, to keep the connection.
SETTLE_S = 0.1
SETTLE_READS = 4


def error_text_of(response: BaseHTTPResponse) -> str:
    """Return the message of an error body, empty if unreadable. Consumes the response."""
    try:
        text = response.read(READ_BYTES).decode("utf-8", "replace")
    except HTTPError:
        return ""
    finally:
        settle(response)
    try:
        return server_message(json.loads(text)) or text
    except (ValueError, RecursionError):
        return text


def wait_before_retry(response: BaseHTTPResponse) -> float | None:
    """Return the seconds to wait before a retry, None if a retry is pointless or too late."""
    if response.status not in RETRIED_STATUSES:
        return None
    wait_s = retry_after_s(response) or 0.0
    return wait_s if wait_s <= LONGEST_WAIT_S else None


def jittered(backoff_s: float) -> float:
    """Return between half and all of the time, so that clients refused together do not return together."""
    return backoff_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def retry_after_s(response: BaseHTTPResponse) -> float | None:
    """Return the server's requested delay in seconds, None without one."""
    try:
        return Retry().get_retry_after(response)
    except (InvalidHeader, ValueError, OverflowError):  # the last two for numbers of thousands of digits, and years
        return None


def body_of(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the body's bytes as they arrive. Raises HTTPError.

    The chunks of a chunked body come as they were sent, which takes a third of the time of reading one by one.
    """
    if response.chunked:
        return response.stream(READ_BYTES)
    return iter(partial(response.read1, READ_BYTES), b"")


def settle(response: BaseHTTPResponse, rest: Iterator[bytes] | None = None) -> None:
    """Return the connection to the pool if the response ends now, after the rest of its body; else drop it.

    Without `rest` the connection is dropped.
    """
    connection = response.connection
    if rest is not None and isinstance(connection, HTTPConnection) and connection.sock is not None:
        connection.sock.settimeout(SETTLE_S)
        with suppress(HTTPError):
            deque(islice(rest, SETTLE_READS), maxlen=0)
    response.close()
    response.release_conn()
