"""Sending of answers as messages of ASGI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType

from starlette.types import Send

from turnstone.http.replies import Reply
from turnstone.http.server.request_lines import RequestLine

NO_CACHE = (b"cache-control", b"no-cache")
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


async def send_whole(
    reply: Reply, send: Send, line: RequestLine, discard: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Send an answer in one piece; `discard` receives the rest of a refused body, between the answer and its end."""
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.status != 204:  # a 204 has no body, not even an empty one
        length = (b"content-length", str(len(reply.body)).encode())
        headers = [(b"content-type", reply.content_type.encode()), length, *headers]
    line.status = reply.status
    line.about.update(reply.about)
    await send({"type": "http.response.start", "status": reply.status, "headers": [*headers, *_id_header(line)]})
    if discard is None:
        await send({"type": "http.response.body", "body": reply.body})
        return
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    await discard()
    await send({"type": "http.response.body", "body": b""})


async def send_chunks(
    content_type: tuple[bytes, bytes],
    chunks: AsyncGenerator[bytes],
    send: Send,
    line: RequestLine,
    own: Mapping[str, str] = NO_HEADERS,
) -> None:
    """Send pieces as they arrive, with the answer's own headers."""
    line.status = 200
    headers = [content_type, *((name.encode(), value.encode()) for name, value in own.items()), *_id_header(line)]
    if "cache-control" not in own:
        headers.append(NO_CACHE)
    async with aclosing(chunks):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _id_header(line: RequestLine) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header with the request's id in the log."""
    return () if line.request_id is None else ((b"x-request-id", line.request_id.encode()),)
