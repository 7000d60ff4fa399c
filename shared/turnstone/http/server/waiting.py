"""Requests that wait in the event loop, without a thread: for a slot, or for the end of their session's turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from turnstone.domain.errors import Stopping, TurnAwaited, TurnRunning
from turnstone.http.dialects import Dialect
from turnstone.http.errors import error_reply
from turnstone.http.replies import Answer
from turnstone.http.request import Request
from turnstone.http.streams.departure import Departure

if TYPE_CHECKING:
    from turnstone.services.streams.session_queues import SessionQueues, SessionWaiter
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.services.threads.slots import Waiter

First = Callable[[Callable[[], Answer]], Callable[[], Answer]]


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


async def answer_after_turn(
    queues: SessionQueues,
    awaited: TurnAwaited,
    receive: Receive,
    attempt: Callable[[First], Awaitable[Answer]],
    dialect: Dialect,
) -> Answer:
    """Return the result of the attempt once the turn has ended, or its refusal. Raises ClientDisconnect.

    The attempt applies its argument to the call, which then precedes other requests that wait for the session.
    """
    try:
        wait = TurnWait(queues, awaited, receive)
        try:
            while await wait.try_wait():
                try:
                    return await attempt(wait.first)
                except TurnAwaited as again:
                    wait.wait_again(again)
        finally:
            wait.leave()
    except (TurnRunning, Stopping) as refused:
        return error_reply(refused, dialect)
    return error_reply(awaited, dialect)


class TurnWait:
    """A request's wait for its session, within the patience of its first refusal."""

    def __init__(self, queues: SessionQueues, refused: TurnAwaited, receive: Receive) -> None:
        """Join the queue; the caller has to `leave`. Raises TurnRunning if too many wait, Stopping."""
        self._queues = queues
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._until_s = self._loop.time() + refused.patience_s
        self._departure = Departure()
        self._waiter = queues.join(refused, self._settle)

    async def try_wait(self) -> bool:
        """Wait until the request is the first of its session and the turn has ended; return whether it is in time.

        Raises:
            Stopping: the server stops.
            ClientDisconnect: the client disconnected.
        """
        changed = self._departure.changed
        timeout = self._loop.call_at(self._until_s, changed.set)
        try:
            with self._departure.watched(self._receive, after_s=0):
                while not (self._waiter.is_ready or self._waiter.is_stopped or self._departure.has_left):
                    await changed.wait()
                    changed.clear()
                    if self._loop.time() >= self._until_s:
                        break
        finally:
            timeout.cancel()
        if self._departure.has_left:
            raise ClientDisconnect
        if self._waiter.is_stopped:
            raise Stopping(0)
        return self._waiter.is_ready

    def wait_again(self, refused: TurnAwaited) -> None:
        """Wait for the turn that came first."""
        self._queues.wait_again(self._waiter, refused)

    def first(self, call: Callable[[], Answer]) -> Callable[[], Answer]:
        """Return the call as that of the first request of its session."""
        return partial(self._queues.within, self._waiter, call)

    def leave(self) -> None:
        """Leave the queue."""
        self._queues.leave(self._waiter)

    def _settle(self, _: SessionWaiter) -> None:
        with suppress(RuntimeError):  # the loop is closed when the server stops before its requests
            self._loop.call_soon_threadsafe(self._departure.changed.set)
