"""What clients do while one call of one port fails, and how many calls that takes at least.

A scenario makes its processes, has the counting begin, and acts; it ends early when the process it needs is dead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.integration.crash_matrix.client import Client
from tests.integration.crash_matrix.processes import AWAIT_S, GUARDED_TOOLS, LARGE, LEASE_S
from tests.integration.crash_matrix.world import World
from tests.support.engine.harness import ProcessDied, completes_turn
from turnstone.domain.refs import TurnRef
from turnstone.settings.config import DAY_S

Scenario = Callable[[World, Client], None]


def creations(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.create(server)


def plain_turn(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "plain", key="a key")


def client_leaves(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "roll", leaves=True)


def server_tools(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "roll")


def shields(world: World, client: Client) -> None:
    """Shields judge the question and the answer, and find nothing; where one fails, what it was to judge goes on."""
    server = world.process()
    client.register_shields(server)
    world.faults.begin()
    client.say(server, "guarded")


def shields_that_stop(world: World, client: Client) -> None:
    """A question is stopped, then an answer; where the shield fails, too."""
    server = world.process()
    client.register_shields(server)
    world.faults.begin()
    client.say(server, "forbidden", key="a key")
    client.say(server, "leaky")


def files_of_tools(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "print")


def shields_of_tools(world: World, client: Client) -> None:
    """Shields judge calls and answers of tools; then one stops an answer beside which another tool ran."""
    server = world.process()
    guarded = world.client(tools=GUARDED_TOOLS)
    guarded.register_shields(server)
    world.faults.begin()
    guarded.say(server, "probe")
    guarded.say(server, "spill")


def two_pauses(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "look-twice", key="a key")
    client.answer(server, "a door", key="another key")
    client.answer(server, "a wall")


def opened_again(world: World, client: Client) -> None:
    """A completed turn whose client read a call out of its text goes on, and runs a tool of the server."""
    server = world.process()
    client.say(server, "write", key="a key")
    world.faults.begin()
    client.answer_in_text(server, key="another key")


def mixed_calls(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "look-and-roll")
    client.answer(server)


def superseding(world: World, client: Client) -> None:
    server = world.process()
    client.say(server, "look")
    server.store_token(open_turn(world, client))
    world.faults.begin()
    client.say(server, "roll")


def expiry(world: World, client: Client) -> None:
    server = world.process()
    world.faults.begin()
    client.say(server, "look")
    server.go_on(AWAIT_S)


def late_resume(world: World, client: Client) -> None:
    server = world.process()
    client.say(server, "look")
    server.store_token(open_turn(world, client))
    world.faults.begin()
    client.answer(server)


def taken_over(world: World, client: Client) -> None:
    """The process of a turn dies before the turn's end; a worker goes on with it."""
    first, worker = world.process(), world.process(is_on_lambda=True)
    first.store.before(completes_turn, first.store.die)
    broadcast = first.start(client.ref, "roll")
    client.said.append("roll")
    first.drain(broadcast)
    world.clock.advance(LEASE_S)
    world.faults.begin()
    worker.see_through(broadcast.ref)


def handed_over(world: World, client: Client) -> None:
    """The first process has no time left while the model speaks; a worker goes on with the turn."""
    server, worker = world.process(is_on_lambda=True), world.process(is_on_lambda=True)
    handed: list[TurnRef] = []

    def hand_over() -> None:
        if not handed:
            handed.append(open_turn(world, client))
            server.turns.hand_off(handed[0])

    server.on_question = hand_over
    world.faults.begin()
    client.say(server, "roll")
    for turn in handed:
        worker.see_through(turn)


def large_payloads(world: World, client: Client) -> None:
    """Question and tool's answer are too large for a record."""
    server = world.process()
    world.faults.begin()
    client.say(server, f"shuffle {LARGE}")


def summing_up(world: World, client: Client) -> None:
    """The window has no room for another turn as long as these, each too long to stand in the log."""
    server = world.process(context_tokens=3_000, summaries=True)
    client.say(server, f"plain {LARGE}")
    world.faults.begin()
    client.say(server, f"plain {LARGE} again")


def cancel_of_a_running_turn(world: World, client: Client) -> None:
    """Another client cancels the turn by way of another process, while the model speaks for the second time."""
    server, other = world.process(), world.process()
    asked: list[TurnRef] = []

    def cancel_once() -> None:
        if world.reader.states(client.ref)[-1].turn.steps and not asked:
            asked.append(open_turn(world, client))
            with suppress(ProcessDied):
                client.cancel(other, asked[0])

    server.on_question = cancel_once
    world.faults.begin()
    client.say(server, "roll")


def cancel_of_a_waiting_turn(world: World, client: Client) -> None:
    server, other = world.process(), world.process()
    client.say(server, "look")
    turn = open_turn(world, client)
    server.store_token(turn)
    world.faults.begin()
    client.cancel(other, turn)


def deletion_of_an_idle_session(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    for one in (world.client(client.ref.agent_id), client):
        one.say(server, f"plain {LARGE}", key="a key")
    world.faults.begin()
    client.delete_session(server)
    worker.work_off()


def deletion_of_a_session_whose_turn_waits(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    client.say(server, "look")
    world.faults.begin()
    client.delete_session(server)
    worker.work_off()


def deletion_of_a_session_whose_turn_runs(world: World, client: Client) -> None:
    """The session is deleted and cleaned up while the model speaks, but for what comes in late: a large payload."""
    server, other, worker = world.process(), world.process(), world.process()

    def delete() -> None:
        client.delete_session(other)
        worker.work()

    server.on_question = _once(delete)
    world.faults.begin()
    client.say(server, f"plain {LARGE}")
    worker.work_off()


def deletion_of_an_agent_one_of_whose_sessions_runs_a_turn(world: World, client: Client) -> None:
    server, other, worker = world.process(), world.process(), world.process()
    world.client()
    world.client(client.ref.agent_id).say(server, f"plain {LARGE}", key="a key")

    def delete() -> None:
        client.delete_agent(other)
        worker.work()

    server.on_question = _once(delete)
    world.faults.begin()
    client.say(server, "plain")
    worker.work_off()


def end_of_a_session_that_nobody_keeps(world: World, client: Client) -> None:
    server, worker = world.process(), world.process()
    forgetful = world.client(enable_session_persistence=False)
    forgetful.say(server, f"plain {LARGE}", key="a key")
    world.clock.advance(DAY_S)
    world.gone.asked.add(forgetful.ref.session_id)
    world.gone.told.add(forgetful.ref.session_id)
    world.faults.begin()
    worker.work_off()


def _once(act: Callable[[], None]) -> Callable[[], None]:
    """Return the act, done the first time only; who dies in it is another process than the caller's."""
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


# scenario: the calls of each port in it, as they were counted once. Fewer would mean that something is not tried.
SCENARIOS: dict[Scenario, dict[str, int]] = {
    creations: {"store": 3},
    plain_turn: {"store": 5, "model": 1},
    client_leaves: {"store": 10, "model": 2, "tools": 3},
    server_tools: {"store": 10, "model": 2, "tools": 3},
    shields: {"store": 13, "model": 2, "tools": 1, "shields": 4},
    shields_that_stop: {"store": 13, "model": 1, "shields": 2},  # one that is given up may never be asked
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
    large_payloads: {"store": 8, "blobs": 4, "model": 2, "tools": 1},
    summing_up: {"store": 5, "blobs": 4, "model": 2},
    cancel_of_a_running_turn: {"store": 19, "model": 2, "tools": 3},
    cancel_of_a_waiting_turn: {"store": 9, "supervisor": 1},
    deletion_of_an_idle_session: {"store": 13, "blobs": 4, "jobs": 2},
    deletion_of_a_session_whose_turn_waits: {"store": 13, "blobs": 4, "jobs": 2},
    deletion_of_a_session_whose_turn_runs: {"store": 19, "blobs": 7, "model": 1, "jobs": 2},
    deletion_of_an_agent_one_of_whose_sessions_runs_a_turn: {"store": 44, "blobs": 12, "model": 1, "jobs": 8},
    end_of_a_session_that_nobody_keeps: {"store": 16, "blobs": 4, "jobs": 3},
}
