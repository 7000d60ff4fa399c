"""A response that runs in the background is one event when it ends; no other response is any.

Covers: domain/responses/webhook_events, domain/responses/statuses, store/webhooks/deliveries
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import call, cut_off
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, attempt
from tests.support.engine.responses import responded, started
from tests.support.engine.webhooks import create, deliveries, pass_time, receiver_of, run_due
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed
from turnstone.domain.responses.addresses import response_id

FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}


def received(server: Server) -> list[dict[str, Any]]:
    return [request.event for request in receiver_of(server).received]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("Done.", "completed"),
        (call("look", "l1"), "completed"),
        (cut_off("Once upon"), "incomplete"),
        (ModelFailed("broken"), "failed"),
    ],
    ids=["answer", "function call", "tokens", "failure"],
)
def test_the_end_of_a_response_in_the_background_is_an_event_with_its_id(make: Make, answer: Any, status: str) -> None:
    server = make(answer)
    webhook, _ = create(server)
    response = responded(server, background=True, tools=[FUNCTION])
    run_due(server)
    (event,) = received(server)
    assert event["type"] == f"response.{response['status']}" == f"response.{status}"
    assert event["data"] == {"id": response["id"]}
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert delivery.status == "delivered"


def test_a_cancelled_response_in_the_background_is_an_event(make: Make) -> None:
    servers: list[Server] = []

    def cancel(_: object) -> str:
        (turn,) = servers[0].core.turn_store.open_turns()
        servers[0].core.cancelling.cancel(LOCAL_CALLER, turn, attempt())
        return "too late"

    server = make(cancel)
    servers.append(server)
    create(server)
    broadcast = started(server, background=True).broadcast
    server.drain(broadcast)
    run_due(server)
    (event,) = received(server)
    assert (event["type"], event["data"]["id"]) == ("response.cancelled", response_id(broadcast.ref))


def test_a_response_within_its_request_is_no_event(make: Make) -> None:
    server = make("Done.")
    create(server)
    responded(server)
    run_due(server)
    assert not received(server)


def test_the_event_of_a_deleted_response_is_never_sent(make: Make) -> None:
    server = make("Done.", "Done.")
    webhook, _ = create(server)
    first = responded(server, background=True)
    second = responded(server, previous_response_id=first["id"])
    server.core.responses.delete(LOCAL_CALLER, first["id"])
    pass_time(server, 1)
    assert not received(server)
    (delivery,) = deliveries(server, webhook.webhook_id)
    assert (delivery.status, delivery.reason) == ("failed", "its response was deleted")
    assert second["status"] == "completed"
