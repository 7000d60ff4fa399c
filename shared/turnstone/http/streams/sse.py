"""A turn's broadcast as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import Receive

from turnstone.domain.turns.events import Numbered, TurnEvent, TurnFailed
from turnstone.domain.turns.failures import Failure
from turnstone.http.streams.departure import Departure
from turnstone.http.streams.pieces import cut
from turnstone.http.streams.silence import PING, PING_AFTER_S, Silence
from turnstone.services.streams.broadcast import TurnBroadcast

if TYPE_CHECKING:
    from turnstone.domain.values.content import Restore
    from turnstone.http.replies import TurnStreamReply

EVENTS_AT_ONCE = 200


async def received(
    broadcast: TurnBroadcast, timeout_s: float = PING_AFTER_S, departure: Departure | None = None
) -> AsyncGenerator[tuple[Numbered, ...], None]:
    """Yield the events as they arrive, in batches if they arrive fast, and an empty batch after `timeout_s` of silence.

    The events end with the broadcast, or when the client has left.
    """
    loop = asyncio.get_running_loop()
    departure = departure or Departure()
    ready = departure.changed

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed when the server stops before its turns
            loop.call_soon_threadsafe(ready.set)

    listener = broadcast.subscribe(wake)
    silence = Silence(loop, timeout_s, ready.set)
    try:
        while not departure.has_left:
            news = listener.take(EVENTS_AT_ONCE)
            if news.numbered:
                yield news.numbered
                silence.ends()
            elif silence.is_long:
                yield ()
                silence.ends()
            if news.is_last:
                return
            if len(news.numbered) == EVENTS_AT_ONCE:
                continue
            await ready.wait()
            ready.clear()
    finally:
        silence.cancel()
        broadcast.unsubscribe(listener)


def past_events(reply: TurnStreamReply, restore: Restore) -> Iterator[bytes]:
    """Yield the bytes of a stream of past events, with their long texts read from the store."""
    sent = partial(_sent, reply.encode, reply.has_ids)
    return restore(map(sent, reply.broadcast.published))


async def sse_chunks(
    broadcast: TurnBroadcast, encode: Callable[[TurnEvent], bytes], receive: Receive, *, has_ids: bool = False
) -> AsyncGenerator[bytes]:
    """Yield the stream's bytes, and a comment after a silence, so that no proxy closes the connection."""

    sent = partial(_sent, encode, has_ids)
    departure = Departure()
    try:
        with departure.watched(receive):
            async for events in received(broadcast, PING_AFTER_S, departure):
                for piece in cut(map(sent, events)) if events else (PING,):
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
