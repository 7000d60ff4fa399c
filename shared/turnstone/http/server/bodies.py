"""Reading a request's body under a limit of size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

READ_ON_FACTOR = 4
LONGEST_NUMBER = 18  # digits of a length


class IncomingBody:
    """The body of a request as it arrives.

    Attributes:
        headers: of the request, by name.
        size_bytes: what arrived so far, or the whole length where the request's head states it.
        has_more: whether a part is left to receive.
    """

    def __init__(self, receive: Receive, headers: Mapping[str, str]) -> None:
        self.receive = receive
        self.headers = headers
        self._received_bytes = 0
        length = headers.get("content-length", "")
        self._stated_bytes = (
            int(length) if length.isascii() and length.isdigit() and len(length) <= LONGEST_NUMBER else 0
        )
        # a client that waits for "100 Continue" sends nothing after a refusal
        self._is_held_back = "expect" in headers
        self.has_more = True

    @property
    def size_bytes(self) -> int:
        return max(self._stated_bytes, self._received_bytes)

    async def part(self) -> bytes:
        """Return the next part. Raises ClientDisconnect if the client disconnected before the body was complete."""
        message: Message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        self._received_bytes += len(part)
        self.has_more = message.get("more_body", False)
        return part

    async def discard(self, most_bytes: int) -> None:
        """Receive the rest of a refused body, unless the whole has more bytes than that.

        A client that sends everything before it reads then receives the refusal instead of a reset connection.
        """
        with suppress(ClientDisconnect):
            while self.has_more and self.size_bytes <= most_bytes and not self._is_held_back:
                await self.part()


async def read_body(body: IncomingBody, limit: int) -> bytes | None:
    """Return the request's body; None, as soon as that is certain, if it is larger than `limit` bytes.

    Raises:
        ClientDisconnect: The client disconnected before the body was complete.
    """
    parts: list[bytes] = []
    while body.size_bytes <= limit:
        parts.append(await body.part())
        if not body.has_more:
            return b"".join(parts) if body.size_bytes <= limit else None
    return None


def headers_by_name(sent: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by name: the last line of each, and all lines of `Prefer`, which is a list."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent}
    if "prefer" in headers:
        headers["prefer"] = b",".join(value for name, value in sent if name == b"prefer").decode("latin-1")
    return headers
