"""A turn's broadcast as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.types import Receive

from turnstone.http.streams.pieces import cut
from turnstone.http.streams.receiving import received
from turnstone.http.streams.silence import PING, PING_AFTER_S, Silence
from turnstone.services.streams.broadcast import TurnBroadcast

if TYPE_CHECKING:
    from turnstone.domain.values.content import Restore
    from turnstone.http.replies import TurnStreamReply
    from turnstone.http.turn_encoder import TurnEncoder

EVENTS_AT_ONCE = 200


def past_events(reply: TurnStreamReply, restore: Restore) -> Iterator[bytes]:
    """Yield the bytes of a stream of past events, with their long texts read from the store."""
    return restore(map(reply.encoder.encode, reply.broadcast.published))


async def sse_chunks(
    broadcast: TurnBroadcast, encoder: TurnEncoder, receive: Receive, timeout_s: float = PING_AFTER_S
) -> AsyncGenerator[bytes]:
    """Yield the stream's bytes, and a comment after `timeout_s` without any, so that no proxy closes the connection."""
    silence = Silence(timeout_s)
    try:
        news_of_turn = received(broadcast, receive, EVENTS_AT_ONCE, silence, reads_details=encoder.reads_details)
        async with aclosing(news_of_turn) as batches:
            async for news in batches:
                for piece in cut(map(encoder.encode, news.numbered)):
                    yield piece
                    silence.ends()
                if silence.is_long:  # events without a form in this dialect have no bytes
                    yield PING
                    silence.ends()
    except asyncio.CancelledError:
        # only a stopping server cancels
        turn_id = broadcast.ref.turn_id
        yield encoder.stopped(f"the server is shutting down; turn {turn_id!r} continues later, read it again")
