"""Responses of a server in this process: begun, waited for, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from tests.support.engine.harness import PATIENCE_S, Server, StoreCall, attempt
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import NONE, ResponseStream, response_in
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.responses.requests import StoredResponse
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.responses.responses import Started
from turnstone.services.streams.broadcast import TurnBroadcast


def started(
    server: Server,
    by: Attempt | None = None,
    caller: Caller = LOCAL_CALLER,
    **body: Any,
) -> Started:
    new = CreateResponse.model_validate({"model": "scripted", "input": "hello", **body}).to_new()
    return server.core.responses.start(caller, new, by or attempt())


def begun(server: Server, **body: Any) -> str:
    """Start a response and return its id at once."""
    return response_id(started(server, **body).broadcast.ref)


def responded(
    server: Server,
    by: Attempt | None = None,
    *,
    is_read: bool = True,
    drain_all: bool = True,
    caller: Caller = LOCAL_CALLER,
    **body: Any,
) -> dict[str, Any]:
    """Return the response to the request, as it is read after its end."""
    broadcast = started(server, by, caller, **body).broadcast
    if drain_all:
        server.drain(broadcast)
    else:
        list(broadcast.wait())
    return read(server, response_id(broadcast.ref), caller) if is_read else {}


def read(server: Server, text: str, caller: Caller = LOCAL_CALLER) -> dict[str, Any]:
    stored = server.core.responses.read(caller, text)
    return response_in(stored, server.core.responses.events_of, server.core.responses.image_at)


def events_in(wire: bytes) -> list[dict[str, Any]]:
    """Return the server-sent events, each with its type in both of its lines."""
    events = []
    for block in wire.decode().split("\n\n")[:-1]:
        named, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert named == f"event: {events[-1]['type']}"
    return events


def encoded(encoder: ResponseStream, broadcast: TurnBroadcast, *, is_over: bool = True) -> list[dict[str, Any]]:
    """Return the events of the stream: all until it is over, or those so far."""
    ready = Event()
    subscriber = broadcast.subscribe(ready.set, reads_details=True)
    wire = b""
    while True:
        news = subscriber.take(50)
        wire += b"".join(map(encoder.encode, news.numbered))
        if news.is_last or (news.is_empty and not is_over):
            broadcast.unsubscribe(subscriber)
            return events_in(wire)
        if not news.has_more:
            assert not is_over or ready.wait(PATIENCE_S), "the stream does not end"
            ready.clear()


def live(started: Started, *, is_over: bool = True) -> list[dict[str, Any]]:
    """Return the events of a response as its first client receives them."""
    encoder = ResponseStream(ShownResponse(started.broadcast.ref, started.sent))
    return encoded(encoder, started.broadcast, is_over=is_over)


def followed(server: Server, text: str, caller: Caller = LOCAL_CALLER) -> Started:
    stored = server.core.responses.read(caller, text)
    return Started(server.core.responses.follow(stored), stored.sent)


def queued(server: Server, by: Attempt | None = None, **body: Any) -> StoredResponse:
    """Start a response in the background."""
    new = CreateResponse.model_validate({"model": "scripted", "input": "hello", "background": True, **body}).to_new()
    return server.core.responses.start_in_background(LOCAL_CALLER, new, by or attempt())


def replayed(server: Server, text: str, after: int = NONE, *, is_over: bool = True) -> list[dict[str, Any]]:
    """Return the events of a response behind that number, as a client that returns receives them."""
    broadcast, sent = followed(server, text)
    shown = ShownResponse(broadcast.ref, sent, server.core.responses.image_at(broadcast.ref))
    encoder = ResponseStream(shown, after, lambda: broadcast.doubtful_after)
    return encoded(encoder, broadcast, is_over=is_over)


@contextmanager
def calls_of_store(server: Server) -> Iterator[list[StoreCall]]:
    """Collect the calls of the store within the block."""
    before = len(server.store.calls)
    calls: list[StoreCall] = []
    yield calls
    calls += server.store.calls[before:]
