"""Requests that wait for a slot in the event loop, without a thread, until one is released."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from turnstone.http.request import Request
from turnstone.http.streams.departure import Departure

if TYPE_CHECKING:
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.services.threads.slots import Waiter


async def wait_for_slot(executor: TurnExecutor, request: Request, receive: Receive, *, comes_first: bool) -> Waiter:
    """Return a waiter with a slot, which the caller has to use or release.

    Raises:
        Overloaded: No slot was free in time, the queue is full, or the server stops.
        ClientDisconnect: The client disconnected, and its request was removed from the queue.
    """
    loop = asyncio.get_running_loop()
    departure = Departure()

    def settle(_: Waiter) -> None:
        with suppress(RuntimeError):  # the loop is closed when the server stops before its turns
            loop.call_soon_threadsafe(departure.changed.set)

    tenant, size_bytes = request.caller.tenant, len(request.body)
    waiter = executor.queue(tenant, settle, size_bytes=size_bytes, comes_first=comes_first)
    has_slot = False
    timeout = loop.call_later(executor.wait_s, departure.changed.set)
    try:
        with departure.watched(receive, after_s=0):
            await departure.changed.wait()
        has_slot = waiter.has_slot and not departure.has_left
    finally:
        timeout.cancel()
        if not has_slot:
            executor.leave(waiter)
    if departure.has_left:
        raise ClientDisconnect
    if not has_slot:
        raise executor.refusal(waiter)
    return waiter
