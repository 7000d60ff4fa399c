"""The acts of clients of Letta's agents while one call of one port fails; see `scenarios.py`."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.crash_matrix.client import Client
from tests.integration.crash_matrix.processes import LARGE
from tests.integration.crash_matrix.world import World


def letta_agent_is_created(world: World, _: Client) -> None:
    server, client = world.process(), world.letta_client()
    world.faults.begin()
    client.create(server, is_keyed=True)


def letta_agent_is_created_with_a_message(world: World, _: Client) -> None:
    """Its turn is stored before it, and a job removes the turn unless the agent is created; the next one follows it."""
    server, client = world.process(), world.letta_client()
    world.faults.begin()
    client.create(server, f"first {LARGE} {LARGE}", is_keyed=True)
    client.send(server, "say hello")


def message_of_a_letta_agent(world: World, _: Client) -> None:
    """The message creates the session, and its one call is stored with the answer."""
    server, client = world.process(), world.letta_client()
    client.create(server)
    world.faults.begin()
    client.send(server, "say hello")


def letta_agent_edits_its_block(world: World, _: Client) -> None:
    server, client = world.process(), world.letta_client()
    client.create(server)
    client.send(server, "say hello")
    world.faults.begin()
    client.send(server, "note it")


def letta_agent_keeps_a_passage(world: World, _: Client) -> None:
    """The passage is the first one, which creates the archival memory."""
    server, client = world.process(), world.letta_client()
    client.create(server)
    world.faults.begin()
    client.send(server, "keep it")


def letta_run(world: World, _: Client) -> None:
    server, worker = world.process(is_on_lambda=True), world.process(is_on_lambda=True)
    client = world.letta_client()
    client.create(server)
    session = client.ref(server)
    world.faults.begin()
    worker.see_through(session.turn(client.begin(server, "note in a run")))


def letta_run_is_cancelled(world: World, _: Client) -> None:
    server, other, worker = world.process(is_on_lambda=True), world.process(), world.process(is_on_lambda=True)
    client = world.letta_client()
    client.create(server)
    session = client.ref(server)
    world.faults.begin()
    turn = session.turn(client.begin(server, "say in a run"))
    client.cancel(other, "say in a run")
    worker.see_through(turn)


def block_of_a_letta_agent_is_changed(world: World, _: Client) -> None:
    server, client = world.process(), world.letta_client()
    client.create(server)
    world.faults.begin()
    client.write_block(server, "An old friend.")
    client.send(server, "note it")


def messages_of_a_letta_agent_are_reset(world: World, _: Client) -> None:
    server, worker, client = world.process(), world.process(), world.letta_client()
    client.create(server)
    client.send(server, "say hello")
    world.faults.begin()
    client.reset(server)
    worker.work_off()


def letta_agent_is_deleted(world: World, _: Client) -> None:
    """The agent has a message, a memory block, which stays, and an archival memory, which is deleted with it."""
    server, worker, client = world.process(), world.process(), world.letta_client()
    client.create(server)
    client.send(server, "keep it")
    world.faults.begin()
    client.delete(server)
    worker.work_off()


# scenario: its calls of each port, as counted once; fewer would mean that some call is never failed
SCENARIOS: dict[Callable[[World, Client], None], dict[str, int]] = {
    letta_agent_is_created: {"store": 4, "blobs": 2},
    letta_agent_is_created_with_a_message: {"store": 16, "blobs": 7, "model": 1},
    message_of_a_letta_agent: {"store": 10, "blobs": 3, "model": 1},
    letta_agent_edits_its_block: {"store": 19, "blobs": 4, "model": 2},
    letta_agent_keeps_a_passage: {"store": 28, "blobs": 5, "model": 2},
    letta_run: {"store": 27, "blobs": 7, "model": 2, "supervisor": 1},
    letta_run_is_cancelled: {"store": 30, "blobs": 11, "supervisor": 1},
    block_of_a_letta_agent_is_changed: {"store": 25, "blobs": 5, "model": 2},
    messages_of_a_letta_agent_are_reset: {"store": 21, "blobs": 8, "jobs": 2},
    letta_agent_is_deleted: {"store": 38, "blobs": 11, "jobs": 7},
}
