"""A publisher's news in the event loop, as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from turnstone.http.streams.departure import Departure
from turnstone.http.streams.silence import Silence

if TYPE_CHECKING:
    from starlette.types import Receive

    from turnstone.services.threads.publisher import NewsT, Publisher


async def received(
    publisher: Publisher[NewsT],
    receive: Receive | None = None,
    most: int | None = None,
    silence: Silence | None = None,
    *,
    reads_details: bool = False,
) -> AsyncGenerator[NewsT]:
    """Yield the news, in batches of `most` if they arrive fast, and empty ones once the silence is long.

    Details are among them with `reads_details`. A caller that passes a silence ends it after sending something, because
    not all news may become bytes. They end with the last ones, or when the client has left, which `receive` reports.
    """
    loop = asyncio.get_running_loop()
    departure = Departure(lambda: publisher.unsubscribe(subscriber))
    ready = departure.changed

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed when the server stops before its turns and models
            loop.call_soon_threadsafe(ready.set)

    subscriber = publisher.subscribe(wake, reads_details=reads_details)
    is_ended_here = silence is None
    silence = silence or Silence()
    silence.begin(loop, ready.set)
    try:
        with nullcontext() if receive is None else departure.watched(receive):
            while not departure.has_left:
                news = subscriber.take(most)
                if not news.is_empty or silence.is_long:
                    yield news
                    if is_ended_here:
                        silence.ends()
                if news.is_last:
                    return
                if news.has_more:
                    continue
                await ready.wait()
                ready.clear()
    finally:
        silence.cancel()
        publisher.unsubscribe(subscriber)
