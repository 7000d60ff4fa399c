"""The process dies before or after any one call of the store; another one finds everything whole and goes on.

The model and the tools answer by what was said last, so that it does not matter how often they are asked.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.fakes.scripted import Reply, Scripted, call, calls
from tests.harness import (
    LEASE_S,
    Harness,
    Matches,
    ProcessDied,
    answer,
    attempt,
    call_number,
    client_tool,
    completes_turn,
    finished_steps,
    outline,
    serving,
    together,
)
from turnstone.domain.attempts import Attempt
from turnstone.domain.errors import StoreUnavailable, TurnstoneError
from turnstone.domain.sessions import SessionRef
from turnstone.domain.turns import Step, TurnStatus
from turnstone.ports import InferenceRequest
from turnstone.services.attention import turn_of
from turnstone.services.broadcast import TurnBroadcast

Serve = Callable[..., Harness]
DICE = {"dice": {"roll": lambda arguments: "4"}}
ASKED = {
    "plain": "A plain answer.",
    "roll": call("roll", "r"),
    "look": call("look", "l"),
    "roll and look": calls(call("look", "l"), call("roll", "r")),
}
STEPS = {
    "plain": ["inference"],
    "roll": ["inference", "tool_execution", "inference"],
    "look": ["inference", "tool_execution", "inference"],
    "roll and look": ["inference", "tool_execution", "tool_execution", "inference"],
}
ENOUGH = 200


def answering(request: InferenceRequest) -> Reply:
    last = request.messages[-1]
    return ASKED[str(last.content)] if last.role == "user" else "That is all."


def answering_slowly(request: InferenceRequest) -> Reply:
    """Answer while others get a chance to come in between."""
    time.sleep(0.002)
    return answering(request)


class Client:
    """Does what a client does, as far as it gets with a server that may die, and remembers what it was told."""

    def __init__(self, server: Harness, ref: SessionRef) -> None:
        self._server = server
        self._ref = ref
        self.told: list[Step] = []

    def say(self, said: str) -> None:
        self._hear(lambda by: self._server.start(self._ref, said, by=by))

    def answer(self) -> None:
        """Answer the call of the waiting turn, if there is one."""
        lock = self._server.header(self._ref).lock
        if lock.await_until is not None:
            turn = turn_of(self._ref, str(lock.order))
            self._hear(lambda by: self._server.resume(turn, answer("l"), by=by))

    def _hear(self, begin: Callable[[Attempt], TurnBroadcast]) -> None:
        """Listen to what begins; like the official clients, try again when the server was not available."""
        first = attempt()
        try:
            broadcast = begin(first)
        except ProcessDied:
            return
        except StoreUnavailable:
            broadcast = begin(first.model_copy(update={"is_retry": True}))
            self._server.attend_after_leases()
        events = self._server.hear(broadcast)
        self.told += (step for step in finished_steps(events) if step not in self.told)
        if not self._server.store.is_dead:
            self._server.attend_after_leases()


def plain(client: Client) -> None:
    client.say("plain")


def server_tool(client: Client) -> None:
    client.say("roll")


def client_tool_and_resume(client: Client) -> None:
    client.say("look")
    client.answer()


def mixed_and_resume(client: Client) -> None:
    client.say("roll and look")
    client.answer()


def superseding(client: Client) -> None:
    client.say("look")
    client.say("roll")


SCENARIOS = [plain, server_tool, client_tool_and_resume, mixed_and_resume, superseding]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Serve]:
    """Make servers, each over a folder of its own."""
    made = []

    def serve(script: Scripted = answering) -> Harness:
        servers = serving(Path(mkdtemp(dir=tmp_path)))
        made.append(servers)
        return next(servers)([script] * ENOUGH, DICE)

    yield serve
    for servers in made:
        next(servers, None)


def opened(server: Harness) -> SessionRef:
    return server.session(toolgroups=["dice"], client_tools=[client_tool()])


def unavailable() -> None:
    raise StoreUnavailable("not now")


def acting(server: Harness, moment: str) -> Callable[[Matches, Callable[[], object]], None]:
    return server.store.before if moment == "before" else server.store.after


def calls_of(fresh: Serve, scenario: Callable[[Client], None], moment: str) -> list[int]:
    """Return the numbers of the store's calls in the scenario; after a read is the same as before what follows."""
    server = fresh()
    ref = opened(server)
    before = len(server.store.calls)
    client = Client(server, ref)
    scenario(client)
    assert_true_to_what_was_told(server, ref, client.told)
    return [call.number for call in server.store.calls[before:] if moment == "before" or call.verb == "write"]


def assert_true_to_what_was_told(server: Harness, ref: SessionRef, told: list[Step], where: str = "") -> None:
    server.assert_whole(ref)
    states = server.states(ref)
    stored = [step for state in states for step in state.turn.steps]
    assert [step for step in stored if step in told] == told, where
    for state in states:
        kinds, asked = [step.step_type for step in state.turn.steps], str(state.turn.input_messages[0].content)
        if state.status is TurnStatus.COMPLETED:
            assert kinds == STEPS[asked], where
        else:
            assert kinds == STEPS[asked][: len(kinds)], where


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("recovery", ["attended to", "a new turn"])
def test_a_crash_at_any_call_of_the_store(
    fresh: Serve, scenario: Callable[[Client], None], moment: str, recovery: str
) -> None:
    for number in calls_of(fresh, scenario, moment):
        server = fresh()
        ref = opened(server)
        client = Client(server, ref)
        acting(server, moment)(call_number(number), server.store.die)
        scenario(client)
        assert server.store.is_dead, f"call {number} did not happen"
        heir = server.another([answering] * ENOUGH, DICE)
        assert_true_to_what_was_told(heir, ref, client.told, f"call {number}")
        server.clock.advance(LEASE_S)
        recovered(heir, ref, client, recovery)
        runs = [*server.tools.invocations, *heir.tools.invocations]
        keys = {(run.idempotency_key.split(":")[0], run.call.call_id): run.idempotency_key for run in runs}
        assert {run.idempotency_key for run in runs} == set(keys.values()), f"call {number}"


def recovered(heir: Harness, ref: SessionRef, client: Client, recovery: str) -> None:
    after = Client(heir, ref)
    if recovery == "attended to":
        heir.attend_open()
        heir.settle()
        assert {state.status for state in heir.states(ref)} <= {
            TurnStatus.COMPLETED,
            TurnStatus.AWAITING_INPUT,
            TurnStatus.CANCELLED,
        }
        assert_true_to_what_was_told(heir, ref, client.told)
        after.answer()
    after.say("plain")
    assert all(state.status.is_terminal for state in heir.states(ref))
    assert heir.states(ref)[-1].status is TurnStatus.COMPLETED
    assert_true_to_what_was_told(heir, ref, [*client.told, *after.told])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_failure_of_any_call_of_the_store(fresh: Serve, scenario: Callable[[Client], None], moment: str) -> None:
    """The process lives on; the client repeats a request that was refused, and the supervisor what was left."""
    for number in calls_of(fresh, scenario, moment):
        server = fresh()
        ref = opened(server)
        client = Client(server, ref)
        acting(server, moment)(call_number(number), unavailable)
        scenario(client)
        assert_true_to_what_was_told(server, ref, client.told, f"call {number}")
        client.answer()
        client.say("plain")
        assert all(state.status.is_terminal for state in server.states(ref)), f"call {number}"
        assert_true_to_what_was_told(server, ref, client.told, f"call {number}")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_call_of_the_takeover_itself(fresh: Serve, moment: str) -> None:
    def left_alone() -> tuple[Harness, SessionRef, Client]:
        server = fresh()
        ref = opened(server)
        client = Client(server, ref)
        server.store.before(completes_turn, server.store.die)
        client.say("roll")
        server.clock.advance(LEASE_S)
        return server, ref, client

    server, ref, client = left_alone()
    heir = server.another([answering] * ENOUGH, DICE)
    heir.attend_open()
    heir.settle()
    assert_true_to_what_was_told(heir, ref, client.told)
    for number in range(1, len(heir.store.calls) + 1):
        server, ref, client = left_alone()
        heir = server.another([answering] * ENOUGH, DICE)
        acting(heir, moment)(call_number(number), heir.store.die)
        try:
            heir.attend_open()
        except ProcessDied:
            assert heir.store.is_dead
        heir.settle()
        last = server.another([answering] * ENOUGH, DICE)
        assert_true_to_what_was_told(last, ref, client.told)
        server.clock.advance(LEASE_S)
        recovered(last, ref, client, "attended to")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_crowd_does_at_once_nothing_told_is_lost(fresh: Serve, seed: int) -> None:
    """Two processes, six clients, leases that run out under running turns, and a supervisor in a hurry."""
    server = fresh(answering_slowly)
    ref = opened(server)
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
    told = [step for broadcast in begun for step in finished_steps(broadcast.events)]
    server.clock.advance(LEASE_S)
    servers[1].attend_open()
    servers[1].settle()
    server.assert_whole(ref)
    stored = [step for state in server.states(ref) for step in state.turn.steps]
    assert [step for step in told if step not in stored] == []
    assert outline(servers[1].say(ref, "plain")).endswith("complete")
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
            server.core.recovery.attend(turn)
    elif chance < 16 and lock.order is not None:
        begun.append(server.resume(turn_of(ref, lock.order), answer("l")))
    else:
        begun.append(server.start(ref, randomness.choice(list(ASKED))))
