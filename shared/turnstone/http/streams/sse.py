"""A turn's broadcast as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import Receive

from turnstone.domain.turns.events import Numbered, TurnEvent, TurnFailed
from turnstone.domain.turns.failures import Failure
from turnstone.http.streams.pieces import cut
from turnstone.http.streams.receiving import received
from turnstone.http.streams.silence import PING
from turnstone.services.streams.broadcast import TurnBroadcast

if TYPE_CHECKING:
    from turnstone.domain.values.content import Restore
    from turnstone.http.replies import TurnStreamReply

EVENTS_AT_ONCE = 200


def past_events(reply: TurnStreamReply, restore: Restore) -> Iterator[bytes]:
    """Yield the bytes of a stream of past events, with their long texts read from the store."""
    sent = partial(_sent, reply.encode, reply.has_ids)
    return restore(map(sent, reply.broadcast.published))


async def sse_chunks(
    broadcast: TurnBroadcast, encode: Callable[[TurnEvent], bytes], receive: Receive, *, has_ids: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the stream's bytes, and a comment after a silence, so that no proxy closes the connection."""

    sent = partial(_sent, encode, has_ids)
    try:
        async with aclosing(received(broadcast, receive, EVENTS_AT_ONCE)) as batches:
            async for news in batches:
                for piece in (PING,) if news.is_empty else cut(map(sent, news.numbered)):
                    yield piece
    except asyncio.CancelledError:
        # only a stopping server cancels
        turn_id = broadcast.ref.turn_id
        failure = Failure(
            kind="handed_over", message=f"the server is shutting down; turn {turn_id!r} continues later, read it again"
        )
        yield encode(TurnFailed(turn_id=turn_id, failure=failure))


def _sent(encode: Callable[[TurnEvent], bytes], has_ids: bool, numbered: Numbered) -> bytes:
    data = encode(numbered.event)
    return b"id: %d\n" % numbered.number + data if has_ids and numbered.number is not None else data
