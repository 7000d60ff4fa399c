"""Responses of a server in this process: begun, waited for, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.engine.harness import Server, StoreCall, attempt
from turnstone.dialects.openai.responses.folding import response_of
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.responses.responses import Started


def started(server: Server, by: Attempt | None = None, caller: Caller = LOCAL_CALLER, **body: Any) -> Started:
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
    events = server.core.responses.events_of(stored.state)
    return response_of(ShownResponse(stored.ref, stored.sent), stored.state, events)


def streamed_events(server: Server, text: str) -> list[dict[str, Any]]:
    """Return the events of the ended response's stream."""
    stored = server.core.responses.read(LOCAL_CALLER, text)
    encoder = ResponseStream(ShownResponse(stored.ref, stored.sent))
    wire = b"".join(map(encoder.encode, server.core.responses.events_of(stored.state)))
    return [json.loads(block.partition(b"\ndata: ")[2]) for block in wire.split(b"\n\n")[:-1]]


@contextmanager
def calls_of_store(server: Server) -> Iterator[list[StoreCall]]:
    """Collect the calls of the store within the block."""
    before = len(server.store.calls)
    calls: list[StoreCall] = []
    yield calls
    calls += server.store.calls[before:]
