"""Reading a request's body under a limit of size."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

READ_ON_FACTOR = 4


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the request's body, None if it is larger than `limit` bytes.

    A body of up to `READ_ON_FACTOR` times the limit is read to its end before it is refused: a client that sends
    everything before it reads then receives the refusal instead of a reset connection.

    Raises:
        ClientDisconnect: The client disconnected before the body was complete.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        if not message.get("more_body", False) or size > limit * READ_ON_FACTOR:
            return b"".join(parts) if size <= limit else None


def headers_by_name(sent: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by name: the last line of each, and all lines of `Prefer`, which is a list."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent}
    if "prefer" in headers:
        headers["prefer"] = b",".join(value for name, value in sent if name == b"prefer").decode("latin-1")
    return headers
