"""A turn's broadcast as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress

from starlette.types import Receive

from turnstone.domain.events import Numbered, TurnEvent, TurnFailed
from turnstone.domain.turns import Failure
from turnstone.services.broadcast import TurnBroadcast

PING = b": ping\n\n"
PING_AFTER_S = 15.0


class Departure:
    """Whether the client has left, which is told to who waits for the next event."""

    def __init__(self) -> None:
        self.has_left = False
        self.changed = asyncio.Event()

    async def watch(self, receive: Receive) -> None:
        """Note when the client leaves; its request was received before."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self.changed.set()


async def heard(
    broadcast: TurnBroadcast, timeout_s: float | None, departure: Departure | None = None
) -> AsyncGenerator[tuple[Numbered, ...], None]:
    """Yield the events as they come, several at once when they come fast; nothing after a silence of `timeout_s`.

    It ends with the broadcast, or when the client has left.
    """
    loop = asyncio.get_running_loop()
    departure = departure or Departure()
    ready = departure.changed

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed when the server stops before its turns
            loop.call_soon_threadsafe(ready.set)

    listener = broadcast.listen(wake)
    try:
        while True:
            news = listener.take()
            if news.told:
                yield news.told
            if news.is_last:
                return
            try:
                async with asyncio.timeout(timeout_s):
                    await ready.wait()
            except TimeoutError:
                yield ()
                continue
            if departure.has_left:
                return
            ready.clear()
    finally:
        broadcast.leave(listener)


async def sse_chunks(
    broadcast: TurnBroadcast, encode: Callable[[TurnEvent], bytes], receive: Receive, *, has_ids: bool = False
) -> AsyncIterator[bytes]:
    """Yield the stream's bytes; a comment goes out when nothing happens, so that no one takes the line for dead."""

    def sent(told: Numbered) -> bytes:
        data = encode(told.event)
        return b"id: %d\n" % told.number + data if has_ids and told.number is not None else data

    departure = Departure()
    watching = asyncio.create_task(departure.watch(receive))
    try:
        async for told in heard(broadcast, PING_AFTER_S, departure):
            yield b"".join(map(sent, told)) if told else PING
    except asyncio.CancelledError:
        # only the server cancels, when its time to stop is over
        turn_id = broadcast.ref.turn_id
        failure = Failure(kind="ended", message=f"the server stops; turn {turn_id!r} goes on later, read it again")
        yield encode(TurnFailed(turn_id=turn_id, failure=failure))
    finally:
        watching.cancel()
