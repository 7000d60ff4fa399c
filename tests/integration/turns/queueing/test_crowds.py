"""Two processes, six clients and a hasty supervisor act at once: every published step is stored afterwards.

The model and the tools answer by the last message, so that repeated calls do not matter.

Covers: services/turns/turns, services/turns/leases, store/sessions/turns
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fakes.models.scripted import Reply, call, calls
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    answer,
    client_tool,
    finished_steps,
    outline,
    serving,
    together,
)
from turnstone.domain.errors import TurnstoneError
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.services.streams.broadcast import TurnBroadcast

DICE = {"dice": {"roll": lambda arguments: "4"}}
ANSWERS = {
    "plain": "A plain answer.",
    "roll": call("roll", "r"),
    "look": call("look", "l"),
    "roll and look": calls(call("look", "l"), call("roll", "r")),
}
ENOUGH = 200


def answering_slowly(request: InferenceRequest) -> Reply:
    """Answer while others get a chance to come in between."""
    time.sleep(0.002)
    last = request.messages[-1]
    return ANSWERS[str(last.content)] if last.role == "user" else "That is all."


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Harness]:
    for serve in serving(tmp_path):
        yield serve([answering_slowly] * ENOUGH, DICE)


@pytest.mark.parametrize("seed", range(6))
def test_under_concurrent_requests_no_published_step_is_lost(server: Harness, seed: int) -> None:
    """Leases run out under running turns, too."""
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    servers = (server, server.another([answering_slowly] * ENOUGH, DICE))
    begun: list[TurnBroadcast] = []

    def visit(number: int) -> None:
        randomness = random.Random(f"{seed} {number}")
        for _ in range(25):
            time.sleep(0.001)
            with suppress(TurnstoneError):
                _act_at_random(randomness, servers, ref, begun)

    together(*(lambda number=number: visit(number) for number in range(6)))
    for each in servers:
        each.settle()
    finished = [step for broadcast in begun for step in finished_steps(broadcast.events)]
    server.clock.advance(LEASE_S)
    servers[1].reconcile_open()
    servers[1].settle()
    server.assert_whole(ref)
    stored = [step for state in server.states(ref) for step in state.turn.steps]
    assert [step for step in finished if step not in stored] == []
    assert outline(servers[1].whole_turn(ref, "plain")).endswith("complete")
    server.assert_whole(ref)


def _act_at_random(
    randomness: random.Random, servers: Sequence[Harness], ref: SessionRef, begun: list[TurnBroadcast]
) -> None:
    server = randomness.choice(servers)
    lock = server.header(ref).lock
    chance = randomness.randrange(30)
    if chance == 0:
        server.clock.advance(LEASE_S)
    elif chance < 6:
        for turn in server.core.turn_store.open_turns():
            server.core.recovery.reconcile(turn)
    elif chance < 16 and lock.order is not None:
        begun.append(server.resume(ref.turn(lock.order), answer("l")))
    else:
        begun.append(server.start(ref, randomness.choice(list(ANSWERS))))
