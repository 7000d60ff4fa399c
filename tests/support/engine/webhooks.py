"""Webhooks of a server in this process, whose receiver is scripted."""

from __future__ import annotations

from datetime import timedelta

from tests.fakes.receiver import Answer, ScriptedReceiver
from tests.support.engine.harness import Server, attempt
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.lists import ListQuery
from turnstone.domain.webhooks.webhooks import EVENT_TYPES, Delivery, EventType, NewWebhook
from turnstone.services.webhooks.webhooks import Revealed

URL = "https://hooks.example/turns"


def create(server: Server, *event_types: EventType, url: str = URL, caller: Caller = LOCAL_CALLER) -> Revealed:
    new = NewWebhook(url=url, event_types=event_types or EVENT_TYPES)
    return server.core.webhooks.create(caller, new, attempt())


def receiver_of(server: Server, *answers: Answer) -> ScriptedReceiver:
    assert isinstance(server.receiver, ScriptedReceiver)
    server.receiver.answers += answers
    return server.receiver


def run_due(server: Server) -> None:
    """Do the jobs that are due, until none is; the clock of a harness stands still otherwise."""
    server.clock.advance(0.001)  # type: ignore[attr-defined]
    while due := server.core.cleaning.due():
        for job in due:
            server.core.cleaning.run_for(job, timedelta(0))
        server.clock.advance(0.001)  # type: ignore[attr-defined]


def pass_time(server: Server, seconds: float) -> None:
    server.clock.advance(seconds)  # type: ignore[attr-defined]
    run_due(server)


def deliveries(server: Server, webhook_id: str, caller: Caller = LOCAL_CALLER) -> tuple[Delivery, ...]:
    return server.core.webhooks.deliveries(caller, webhook_id, ListQuery(limit=100)).deliveries
