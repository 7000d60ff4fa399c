"""The departure of a client before the end of its answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Receive

WATCH_AFTER_S = 0.25  # most streams are over sooner


class Departure:
    """Whether the client has left; `changed` wakes the task that waits for the next event.

    `on_leaving` is called in the loop, at once, so it must not wait.
    """

    def __init__(self, on_leaving: Callable[[], object] | None = None) -> None:
        self._on_leaving = on_leaving
        self.has_left = False
        self.changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    @contextmanager
    def watched(self, receive: Receive, after_s: float = WATCH_AFTER_S) -> Iterator[None]:
        """Within the block, note when the client disconnects, from `after_s` on; its request was received before."""
        beginning = asyncio.get_running_loop().call_later(after_s, self._begin, receive)
        try:
            yield
        finally:
            beginning.cancel()
            if self._watching is not None:
                self._watching.cancel()

    def _begin(self, receive: Receive) -> None:
        self._watching = asyncio.create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        self.changed.set()
        if self._on_leaving is not None:
            self._on_leaving()
