"""The acts of clients of responses while one call of one port fails; see `scenarios.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.crash_matrix.client import Client
from tests.integration.crash_matrix.processes import LARGE
from tests.integration.crash_matrix.response_client import BIRDS
from tests.integration.crash_matrix.world import World
from turnstone.domain.responses.addresses import approval_id

FUNCTIONS: dict[str, Any] = {"tools": [{"type": "function", "name": "look"}]}


def first_response(world: World, _: Client) -> None:
    server, client = world.process(), world.response_client()
    world.faults.begin()
    client.respond(server, "plain first")


def continued_response(world: World, _: Client) -> None:
    server, client = world.process(), world.response_client()
    client.respond(server, "plain first")
    world.faults.begin()
    client.respond(server, "plain second", after="plain first")


def forked_response(world: World, _: Client) -> None:
    """A response continues one that another has continued since."""
    server, client = world.process(), world.response_client()
    client.respond(server, "plain first")
    client.respond(server, "plain second", after="plain first")
    world.faults.begin()
    client.respond(server, "plain fork", after="plain first")


def outputs_of_functions(world: World, _: Client) -> None:
    server, client = world.process(), world.response_client()
    client.respond(server, "call", **FUNCTIONS)
    world.faults.begin()
    output = {"type": "function_call_output", "call_id": "l1", "output": "a door"}
    client.respond(server, "outputs", after="call", input=[output], **FUNCTIONS)


def response_in_the_background(world: World, _: Client) -> None:
    server, worker = world.process(is_on_lambda=True), world.process(is_on_lambda=True)
    client = world.response_client()
    world.faults.begin()
    worker.see_through(client.queue(server, "plain queued"))


def response_is_cancelled(world: World, _: Client) -> None:
    server, other, worker = world.process(is_on_lambda=True), world.process(), world.process(is_on_lambda=True)
    client = world.response_client()
    world.faults.begin()
    turn = client.queue(server, "plain queued")
    client.cancel(other, "plain queued")
    worker.see_through(turn)


def response_is_deleted(world: World, _: Client) -> None:
    """The response is the only one of its session, which is deleted with it."""
    server, worker, client = world.process(), world.process(), world.response_client()
    client.respond(server, "plain first")
    world.faults.begin()
    client.delete(server, "plain first")
    worker.work_off()


def approved_call(world: World, _: Client) -> None:
    """The response with the approval is too large for a record, and its turn has the secrets of a server."""
    server, client = world.process(), world.response_client()
    client.respond(server, "request", tools=[BIRDS])
    world.faults.begin()
    approval = {
        "type": "mcp_approval_response",
        "approval_request_id": approval_id(client.turn("request").turn_id, "c1"),
        "approve": True,
    }
    words = {"role": "user", "content": f"plain {LARGE}"}
    client.respond(server, "approval", after="request", input=[approval, words], tools=[BIRDS])


# scenario: its calls of each port, as counted once; fewer would mean that some call is never failed
SCENARIOS: dict[Callable[[World, Client], None], dict[str, int]] = {
    first_response: {"store": 6, "model": 1},
    continued_response: {"store": 8, "model": 1},
    forked_response: {"store": 12, "model": 1},
    outputs_of_functions: {"store": 8, "model": 1},
    response_in_the_background: {"store": 16, "model": 1, "supervisor": 1},
    response_is_cancelled: {"store": 20, "supervisor": 1},
    response_is_deleted: {"store": 20, "blobs": 4, "jobs": 3},
    approved_call: {"store": 11, "blobs": 3, "model": 1, "tools": 1},
}
