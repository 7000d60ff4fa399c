"""The acts of clients while one call of one port fails, and the least number of calls they take.

A scenario makes its processes, has the counting begin, and acts; it ends early when the process it needs is dead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.integration.crash_matrix.client import Client
from tests.integration.crash_matrix.letta_scenarios import SCENARIOS as OF_LETTA
from tests.integration.crash_matrix.processes import AWAIT_S, GUARDED_TOOLS, LARGE, LEASE_S
from tests.integration.crash_matrix.response_scenarios import SCENARIOS as OF_RESPONSES
from tests.integration.crash_matrix.world import World
from tests.support.engine.harness import ProcessDied, completes_turn
from turnstone.domain.refs import TurnRef
from turnstone.services.threads.slots import QueueLimits
from turnstone.settings.config import DAY_S

Scenario = Callable[[World, Client], None]


def creations(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.create(server)


def plain_turn(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "plain", key="a key")


def client_leaves(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "roll", leaves=True)


def server_tools(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "roll")


def shields(world: World, client: Client) -> None:
    """Shields judge the question and the answer, and find nothing; the subject of a failing shield passes."""
    server = world.process()
    client.register_shields(server)
    world.faults.begin()
    client.send(server, "guarded")


def shields_that_stop(world: World, client: Client) -> None:
    """A question is stopped, then an answer; where the shield fails, too."""
    server = world.process()
    client.register_shields(server)
    world.faults.begin()
    client.send(server, "forbidden", key="a key")
    client.send(server, "leaky")


def files_of_tools(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "print")


def shields_of_tools(world: World, client: Client) -> None:
    """Shields judge calls and answers of tools; then one stops an answer while another tool runs."""
    server = world.process()
    guarded = world.client(tools=GUARDED_TOOLS)
    guarded.register_shields(server)
    world.faults.begin()
    guarded.send(server, "probe")
    guarded.send(server, "spill")


def two_pauses(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "look-twice", key="a key")
    client.answer(server, "a door", key="another key")
    client.answer(server, "a wall")


def opened_again(world: World, client: Client) -> None:
    """A completed turn whose client read a call out of its text continues, and runs a tool of the server."""
    server = world.process()
    client.send(server, "write", key="a key")
    world.faults.begin()
    client.answer_in_text(server, key="another key")


def mixed_calls(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "look-and-roll")
    client.answer(server)


def superseding(world: World, client: Client) -> None:
    server = world.process()
    client.send(server, "look")
    server.store_token(open_turn(world, client))
    world.faults.begin()
    client.send(server, "roll")


def expiry(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.send(server, "look")
    server.pass_time(AWAIT_S)


def late_resume(world: World, client: Client) -> None:
    server = world.process()
    client.send(server, "look")
    server.store_token(open_turn(world, client))
    world.faults.begin()
    client.answer(server)


def taken_over(world: World, client: Client) -> None:
    """The process of a turn dies before the turn's end; a worker continues it."""
    first, worker = world.process(), world.process(is_on_lambda=True)
    first.store.before(completes_turn, first.store.die)
    broadcast = first.start(client.ref, "roll")
    client.messages.append("roll")
    first.drain(broadcast)
    world.clock.advance(LEASE_S)
    world.faults.begin()
    worker.see_through(broadcast.ref)


def handed_over(world: World, client: Client) -> None:
    """The first process has no time left while the model answers; a worker continues the turn."""
    server, worker = world.process(is_on_lambda=True), world.process(is_on_lambda=True)
    turns: list[TurnRef] = []

    def hand_off() -> None:
        if not turns:
            turns.append(open_turn(world, client))
            server.turns.hand_off(turns[0])

    server.on_question = hand_off
    world.faults.begin()
    client.send(server, "roll")
    for turn in turns:
        worker.see_through(turn)


def queued_turn(world: World, client: Client) -> None:
    """A process without time for the turn queues it, and a worker runs it."""
    server, worker = world.process(is_on_lambda=True), world.process(is_on_lambda=True)
    world.faults.begin()
    worker.see_through(client.queue(server, "roll"))


def queued_turn_of_a_server(world: World, client: Client) -> None:
    """The turn waits for the only slot of its process."""
    server = world.process(max_running_turns=1)
    server.core.executor._slots.limits = QueueLimits(30, 9, 9)
    world.faults.begin()
    with server.core.executor.permit(client.ref.tenant):
        client.queue(server, "roll")
    server.settle()  # the turn has the slot now, and runs in a thread of its own
    server.pass_time(0)


def queued_turn_is_cancelled(world: World, client: Client) -> None:
    server, other, worker = world.process(is_on_lambda=True), world.process(), world.process(is_on_lambda=True)
    world.faults.begin()
    turn = client.queue(server, "plain", key="a key")
    client.cancel(other, turn)
    worker.see_through(turn)


def large_payloads(world: World, client: Client) -> None:
    """Question and tool's answer are too large for a record."""
    server = world.process()
    world.faults.begin()
    client.send(server, f"shuffle {LARGE}")


def summing_up(world: World, client: Client) -> None:
    """The context window has no room for another turn as long as these, each too long for the log."""
    server = world.process(context_tokens=3_000, summaries=True)
    client.send(server, f"plain {LARGE}")
    world.faults.begin()
    client.send(server, f"plain {LARGE} again")


def cancel_of_a_running_turn(world: World, client: Client) -> None:
    """Another client cancels the turn over another process, during the model's second answer."""
    server, other = world.process(), world.process()
    cancelled: list[TurnRef] = []

    def cancel_once() -> None:
        if world.reader.states(client.ref)[-1].turn.steps and not cancelled:
            cancelled.append(open_turn(world, client))
            with suppress(ProcessDied):
                client.cancel(other, cancelled[0])

    server.on_question = cancel_once
    world.faults.begin()
    client.send(server, "roll")


def cancel_of_a_waiting_turn(world: World, client: Client) -> None:
    server, other = world.process(), world.process()
    client.send(server, "look")
    turn = open_turn(world, client)
    server.store_token(turn)
    world.faults.begin()
    client.cancel(other, turn)


def events_for_a_webhook(world: World, client: Client) -> None:
    """A worker delivers the events of a turn's pause and of its end."""
    server, worker = world.process(), world.process()
    world.subscribe(server)
    world.faults.begin()
    client.send(server, "look")
    client.answer(server)
    worker.work_off()


def deletion_of_an_idle_session(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    for one in (world.client(client.ref.agent_id), client):
        one.send(server, f"plain {LARGE}", key="a key")
    world.faults.begin()
    client.delete_session(server)
    worker.work_off()


def deletion_of_a_session_whose_turn_waits(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    client.send(server, "look")
    world.faults.begin()
    client.delete_session(server)
    worker.work_off()


def deletion_of_a_session_whose_turn_runs(world: World, client: Client) -> None:
    """The session is deleted and cleaned up while the model answers, except for a late large payload."""
    server, other, worker = world.process(), world.process(), world.process()

    def delete() -> None:
        client.delete_session(other)
        worker.work()

    server.on_question = _once(delete)
    world.faults.begin()
    client.send(server, f"plain {LARGE}")
    worker.work_off()


def deletion_of_an_agent_one_of_whose_sessions_runs_a_turn(world: World, client: Client) -> None:
    server, other, worker = world.process(), world.process(), world.process()
    world.client()
    world.client(client.ref.agent_id).send(server, f"plain {LARGE}", key="a key")

    def delete() -> None:
        client.delete_agent(other)
        worker.work()

    server.on_question = _once(delete)
    world.faults.begin()
    client.send(server, "plain")
    worker.work_off()


def end_of_a_session_that_nobody_keeps(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    forgetful = world.client(enable_session_persistence=False)
    forgetful.send(server, f"plain {LARGE}", key="a key")
    world.clock.advance(DAY_S)
    world.gone.requested.add(forgetful.ref.session_id)
    world.gone.confirmed.add(forgetful.ref.session_id)
    world.faults.begin()
    worker.work_off()


def _once(act: Callable[[], None]) -> Callable[[], None]:
    """Return the act, done the first time only; a process that dies in it is another one than the caller's."""
    left = [act]

    def act_once() -> None:
        if left:
            with suppress(ProcessDied):
                left.pop()()

    return act_once


def open_turn(world: World, client: Client) -> TurnRef:
    lock = world.reader.header(client.ref).lock
    assert lock.order is not None
    return client.ref.turn(lock.order)


# scenario: its calls of each port, as counted once; fewer would mean that some call is never failed
SCENARIOS: dict[Scenario, dict[str, int]] = {
    creations: {"store": 3},
    plain_turn: {"store": 5, "model": 1},
    client_leaves: {"store": 10, "model": 2, "tools": 3},
    server_tools: {"store": 10, "model": 2, "tools": 3},
    shields: {"store": 13, "model": 2, "tools": 1, "shields": 4},
    shields_that_stop: {"store": 13, "model": 1, "shields": 2},  # a cancelled shield may never be called
    files_of_tools: {"store": 10, "blobs": 2, "model": 2, "tools": 2},
    shields_of_tools: {"store": 20, "model": 3, "tools": 4, "shields": 7},
    two_pauses: {"store": 17, "model": 3, "supervisor": 2},
    opened_again: {"store": 11, "model": 2, "tools": 1},
    mixed_calls: {"store": 13, "model": 2, "tools": 1, "supervisor": 1},
    superseding: {"store": 14, "model": 2, "tools": 3, "supervisor": 1},
    expiry: {"store": 11, "model": 1, "supervisor": 1},
    late_resume: {"store": 6, "model": 1, "supervisor": 1},
    taken_over: {"store": 10, "model": 1},
    handed_over: {"store": 18, "model": 3, "tools": 3, "supervisor": 1},
    queued_turn: {"store": 12, "model": 2, "tools": 3, "supervisor": 1},
    queued_turn_of_a_server: {"store": 12, "model": 2, "tools": 3, "supervisor": 1},
    queued_turn_is_cancelled: {"store": 5, "supervisor": 1},
    large_payloads: {"store": 8, "blobs": 4, "model": 2, "tools": 1},
    summing_up: {"store": 5, "blobs": 4, "model": 2},
    cancel_of_a_running_turn: {"store": 19, "model": 2, "tools": 3},
    cancel_of_a_waiting_turn: {"store": 9, "supervisor": 1},
    events_for_a_webhook: {"store": 32, "model": 2, "supervisor": 1, "jobs": 4, "receiver": 2},
    deletion_of_an_idle_session: {"store": 13, "blobs": 4, "jobs": 2},
    deletion_of_a_session_whose_turn_waits: {"store": 13, "blobs": 4, "jobs": 2},
    deletion_of_a_session_whose_turn_runs: {"store": 19, "blobs": 7, "model": 1, "jobs": 2},
    deletion_of_an_agent_one_of_whose_sessions_runs_a_turn: {"store": 44, "blobs": 12, "model": 1, "jobs": 8},
    end_of_a_session_that_nobody_keeps: {"store": 16, "blobs": 4, "jobs": 3},
    **OF_RESPONSES,
    **OF_LETTA,
}
