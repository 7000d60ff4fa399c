"""Turns that continue in another process: local subscribers receive their end, and a stored task token is woken.

Covers: services/streams/following, services/turns/reading
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

import turnstone.bootstrap.services.turns
from tests.fakes.models.scripted import Reply, ScriptedReply, call
from tests.support.engine.harness import (
    LEASE_S,
    Gate,
    Harness,
    Held,
    ProcessDied,
    answer,
    attempt,
    client_tool,
    eventually,
    opens_turn,
    outline,
    resumes_turn,
    serving,
)
from turnstone.adapters.aws.step_functions import StepFunctionsSupervisor
from turnstone.bootstrap.core import Core
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import Conflict, ModelFailed, StoreUnavailable, TurnstoneError
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import AttributeIs, Delete, Put, RevIs, Update
from turnstone.services.access.access import AccessRules
from turnstone.services.streams.broadcast import Broadcasts, TurnBroadcast
from turnstone.services.streams.following import Following
from turnstone.services.turns.reading import TurnReader
from turnstone.store.layout.keys import session_key, turn_key, turn_key_of

Serve = Callable[..., Harness]
ROLL = call("roll", "r")
CLIENT_CALL = call("look", "l")
DICE = {"dice": {"roll": lambda arguments: "4"}}
EVERY_S = 0.02
LONG = timedelta(seconds=600)
SOME_POLLS_S = 5 * EVERY_S
FIRST = attempt("a request")
AGAIN = FIRST.model_copy(update={"is_retry": True})


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Make servers that work as Lambdas, over one database."""
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", EVERY_S)
    for make in serving(tmp_path):

        def make_on_lambda(*arguments: Any, make: Serve = make, **settings: Any) -> Harness:
            return on_lambda(make(*arguments, **settings))

        yield make_on_lambda


def on_lambda(server: Harness) -> Harness:
    server.core = Core(server.core.foundation.ports, server.core.foundation.settings, is_on_lambda=True).load()
    server.turns, server.reader = server.core.turns, server.core.reader
    return server


def another(server: Harness, *script: Any) -> Harness:
    return on_lambda(server.another(script, DICE))


def opened(server: Harness) -> SessionRef:
    return server.session(toolgroups=["dice"], client_tools=[client_tool()])


def unavailable() -> None:
    raise StoreUnavailable("not now")


def following(server: Harness) -> Following:
    follow: Any = server.core.turn_services.runner_deps.follow
    found: Following = follow.__self__
    return found


def store_calls(server: Harness) -> int:
    return len(server.store.calls)


def running_and_joined(serve: Serve, thinking: Gate, *script: Any) -> tuple[Harness, Harness, TurnBroadcast]:
    """Return the process that runs a turn, another one, and the turn's broadcast there, joined by a retry."""
    server = serve([*script, thinking], DICE)
    ref = opened(server)
    server.start(ref, by=FIRST)
    thinking.wait()
    second = another(server)
    return server, second, second.start(ref, by=AGAIN)


# ---- subscribers in this process


ENDINGS: dict[str, tuple[Reply, str]] = {
    "completed": ("done", "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"),
    "waiting": (CLIENT_CALL, "start S:infer P C:infer S:tool P C:tool S:infer P C:infer awaiting"),
    "failed": (
        ScriptedReply(error=ModelFailed("broken")),
        "start S:infer P C:infer S:tool P C:tool failed:model_failed",
    ),
    "crashed": (ScriptedReply(error=RuntimeError("a bug")), "start S:infer P C:infer S:tool P C:tool failed:internal"),
}


@pytest.mark.parametrize(("reply", "outcome"), ENDINGS.values(), ids=ENDINGS)
def test_a_caller_that_joins_a_turn_running_elsewhere_receives_its_end(
    serve: Serve, reply: Reply, outcome: str
) -> None:
    thinking = Held(reply)
    server, second, joined = running_and_joined(serve, thinking, ROLL)
    time.sleep(SOME_POLLS_S)
    assert (joined.events, joined.is_over) == ([], False)
    thinking.open()
    assert outline(second.drain(joined)) == outcome
    assert second.core.broadcasts.find(joined.ref) is None
    server.settle()


@pytest.mark.parametrize("missing", ["session", "turn"])
def test_a_caller_that_joins_a_removed_turn_receives_that_it_is_gone(serve: Serve, missing: str) -> None:
    thinking = Held("late")
    server, second, joined = running_and_joined(serve, thinking)
    key = session_key(joined.ref) if missing == "session" else turn_key(joined.ref, joined.ref.turn_id)
    server.records.write([Delete(key)])
    assert outline(second.drain(joined)) == "failed:gone"
    assert "not found" in joined.events[-1].failure.message  # type: ignore[union-attr]
    thinking.open()
    server.settle()


@pytest.mark.parametrize(
    ("reply", "outcome"), [("done", "complete"), (call("look", "l2"), "awaiting")], ids=["ends", "waits again"]
)
def test_a_repeated_resume_receives_how_the_turn_continues_elsewhere(serve: Serve, reply: Reply, outcome: str) -> None:
    thinking = Held(reply)
    server = serve([CLIENT_CALL, thinking], DICE)
    turn = server.paused(opened(server))
    server.resume(turn, answer("l"), by=FIRST)
    thinking.wait()
    second = another(server)
    joined = second.resume(turn, answer("l"), by=AGAIN)
    thinking.open()
    assert outline(second.drain(joined)).endswith(outcome)
    assert len(server.state(turn).turn.steps) == 3
    server.settle()


def test_while_the_store_is_unavailable_the_turn_is_polled_again(serve: Serve) -> None:
    thinking = Held("done")
    server, second, joined = running_and_joined(serve, thinking)
    failures: list[int] = []

    def fail() -> None:
        failures.append(1)
        unavailable()

    second.store.before(lambda made: made.verb == "gather", fail, times=3)
    thinking.open()
    assert outline(second.drain(joined)).endswith("complete")
    assert len(failures) == 3
    server.settle()


def test_an_unreadable_turn_fails_its_subscribers_and_others_receive_their_end(serve: Serve) -> None:
    gates = [Held("late"), Held("done")]
    server = serve([gates[0]], DICE)
    runner, second = another(server, gates[1]), another(server)
    joined = []
    for process, thinking, by in zip((server, runner), gates, (FIRST, attempt("another request")), strict=True):
        ref = opened(server)
        process.start(ref, by=by)
        thinking.wait()
        joined.append(second.start(ref, by=by.model_copy(update={"is_retry": True})))
    broken, whole = joined
    server.records.write([Put(turn_key_of(broken.ref), b"broken", {"status": "in_progress"})])
    assert outline(second.drain(broken)) == "failed:internal"
    assert second.core.broadcasts.find(broken.ref) is None
    gates[1].open()
    assert outline(second.drain(whole)).endswith("complete")
    eventually(lambda: not following(second)._is_polling)
    gates[0].open()
    server.settle()
    runner.settle()


@pytest.mark.parametrize("is_deliverable", [True, False])
def test_a_poll_that_fails_is_the_last_one_with_or_without_a_subscriber(serve: Serve, is_deliverable: bool) -> None:
    ref = TurnRef(tenant="t", agent_id="a", session_id="s", turn_id="t1")
    polls: list[int] = []
    emitted: list[TurnFailed] = []

    def poll() -> bool:
        polls.append(1)
        raise ValueError("a record that can't be read")

    def end(event: TurnFailed) -> None:
        emitted.append(event)
        if not is_deliverable:
            raise ValueError("no subscriber")

    followed = Following(serve().core.turn_store, Broadcasts(), EVERY_S)
    followed.poll(ref, poll, end)
    eventually(lambda: not followed._is_polling)
    assert len(polls) == 1
    assert [(event.turn_id, event.failure.kind) for event in emitted] == [("t1", "internal")]
    assert "read it to see how it continues" in emitted[0].failure.message


def test_a_turn_without_subscribers_is_not_polled(serve: Serve) -> None:
    thinking = Held("done")
    server, second, joined = running_and_joined(serve, thinking)
    eventually(lambda: store_calls(second) > 3)
    second.turns.hand_off(joined.ref)
    eventually(lambda: not following(second)._is_polling)
    made = store_calls(second)
    time.sleep(SOME_POLLS_S)
    assert made == store_calls(second)
    thinking.open()
    server.settle()


def test_a_subscriber_that_arrives_during_the_last_poll_is_followed_too(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinking, none_found = Held("done"), Gate()
    server, second, joined = running_and_joined(serve, thinking)
    find = second.core.broadcasts.find

    def find_and_stand_still(ref: TurnRef) -> TurnBroadcast | None:
        found = find(ref)
        if found is None and threading.current_thread().name == "following":
            none_found.pass_through()
        return found

    monkeypatch.setattr(second.core.broadcasts, "find", find_and_stand_still)
    second.turns.hand_off(joined.ref)
    none_found.wait()
    joined = second.start(joined.ref, by=AGAIN)
    none_found.open()
    time.sleep(SOME_POLLS_S)
    thinking.open()
    server.settle()
    eventually(lambda: joined.is_over)
    assert outline(joined.events).endswith("complete")


def test_polling_ends_with_the_last_followed_turn_and_begins_again(serve: Serve) -> None:
    thinking, thinking_again = Held("done"), Held("done again")
    server, second, joined = running_and_joined(serve, thinking)
    assert following(second)._is_polling
    thinking.open()
    second.drain(joined)
    server.settle()
    eventually(lambda: not following(second)._is_polling)
    runner, by, ref = another(server, thinking_again), attempt("another request"), opened(server)
    runner.start(ref, by=by)
    thinking_again.wait()
    joined = second.start(ref, by=by.model_copy(update={"is_retry": True}))
    assert following(second)._is_polling
    thinking_again.open()
    assert outline(second.drain(joined)).endswith("complete")
    runner.settle()


def test_one_thread_polls_all_turns_and_each_once(serve: Serve) -> None:
    gates = [Held("one"), Held("two"), Held("three")]
    server = serve([], DICE)
    second = another(server)
    joined = []
    for number, thinking in enumerate(gates):
        runner = another(server, thinking)
        by = attempt(f"request {number}")
        ref = opened(server)
        runner.start(ref, by=by)
        thinking.wait()
        retry: Attempt = by.model_copy(update={"is_retry": True})
        joined += [second.start(ref, by=retry), second.start(ref, by=retry)]
    assert len({id(broadcast) for broadcast in joined}) == 3
    assert len(following(second)._followed) == 3
    for thinking in gates:
        thinking.open()
    assert all(outline(second.drain(broadcast)).endswith("complete") for broadcast in joined)
    eventually(lambda: not following(second)._is_polling)


def test_a_turn_that_is_taken_over_here_is_published_by_its_run_alone(serve: Serve) -> None:
    thinking, own_thinking = Held("late"), Held("done")
    server = serve([ROLL, thinking], DICE)
    ref = opened(server)
    server.start(ref, by=FIRST)
    thinking.wait()
    second = another(server, own_thinking)
    joined = second.start(ref, by=AGAIN)
    server.clock.advance(LEASE_S)
    second.reconcile_turn(joined.ref)
    own_thinking.wait()
    time.sleep(SOME_POLLS_S)
    assert outline(joined.events) == "start S:infer P C:infer S:tool P C:tool S:infer"
    assert not following(second)._followed
    own_thinking.open()
    assert outline(second.drain(joined)) == "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"
    thinking.open()
    server.settle()


def test_on_one_machine_too_a_caller_that_joins_a_turn_of_another_process_receives_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", EVERY_S)
    for make in serving(tmp_path):
        thinking = Held("done")
        server = make([thinking], DICE)
        ref = opened(server)
        server.start(ref, by=FIRST)
        thinking.wait()
        second = server.another([], DICE)
        joined = second.start(ref, by=AGAIN)
        thinking.open()
        server.settle()
        assert outline(second.drain(joined)).endswith("complete")


def test_a_retry_after_an_unavailable_supervisor_receives_the_end(serve: Serve) -> None:
    thinking = Held("done")
    server = serve([thinking], DICE)
    ref = opened(server)
    server.start(ref, by=FIRST)
    thinking.wait()
    second = another(server)
    second.supervisor.on_watch = unavailable
    with pytest.raises(StoreUnavailable):
        second.start(ref, by=AGAIN)
    second.supervisor.on_watch = lambda: None
    joined = second.start(ref, by=AGAIN)
    thinking.open()
    assert outline(second.drain(joined)).endswith("complete")
    server.settle()


# ---- waiting executions


def store_token(server: Harness, turn: TurnRef, token: str = "token") -> None:
    """Store a token as the state machine does: with a new revision, if the turn still waits."""
    key = turn_key_of(turn)
    record = server.records.get(key)
    assert record is not None
    still_waits = AttributeIs("status", TurnStatus.AWAITING_INPUT.value)
    server.records.write([Update(key, {"token": token}, (RevIs(record.rev), still_waits))])


def stored_token(server: Harness, turn: TurnRef) -> object:
    record = server.records.get(turn_key_of(turn))
    assert record is not None
    return record.attributes.get("token")


def woken_when(server: Harness, turn: TurnRef) -> list[tuple[str, TurnStatus]]:
    """Return a list that collects each woken token with the turn's status at that time."""
    woken: list[tuple[str, TurnStatus]] = []

    def wake(token: str) -> None:
        woken.append((token, server.state(turn).status))

    server.supervisor.wake = wake  # type: ignore[method-assign]
    return woken


def test_the_token_is_read_into_the_state_and_changes_nothing_else(serve: Serve) -> None:
    server = serve([CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    before = server.state(turn)
    assert before.token is None
    store_token(server, turn)
    after = server.state(turn)
    assert after == before.model_copy(update={"token": "token", "rev": before.rev + 1})
    assert server.reader.read(LOCAL_CALLER, turn).turn == before.turn
    server.assert_whole(turn)


def test_a_resume_wakes_the_waiting_execution_once_and_after_it_is_stored(serve: Serve) -> None:
    thinking = Held("done")
    server = serve([CLIENT_CALL, thinking], DICE)
    turn = server.paused(opened(server))
    store_token(server, turn)
    woken = woken_when(server, turn)
    broadcast = server.resume(turn, answer("l"), by=FIRST)
    server.resume(turn, answer("l"), by=AGAIN)
    assert woken == [("token", TurnStatus.IN_PROGRESS)]
    assert stored_token(server, turn) is None
    thinking.open()
    server.drain(broadcast)
    assert len(woken) == 1
    server.assert_whole(turn)


def test_a_new_turn_wakes_the_execution_of_the_turn_it_supersedes(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "done"], DICE)
    ref = opened(server)
    turn = server.paused(ref)
    store_token(server, turn)
    woken = woken_when(server, turn)
    assert outline(server.whole_turn(ref)).endswith("complete")
    assert woken == [("token", TurnStatus.CANCELLED)]
    assert stored_token(server, turn) is None
    server.assert_whole(ref)


def test_a_turn_without_a_token_wakes_no_execution(serve: Serve) -> None:
    server = serve([CLIENT_CALL, CLIENT_CALL, "done"], DICE)
    ref = opened(server)
    turn = server.paused(ref)
    server.drain(server.resume(turn, answer("l")))
    server.whole_turn(ref)
    assert server.supervisor.woken == []


def test_a_refused_resume_wakes_no_execution(serve: Serve) -> None:
    server = serve([CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    store_token(server, turn)
    woken = woken_when(server, turn)
    server.store.before(resumes_turn, unavailable)
    for calls in (("unknown",), ("l",), ()):
        with pytest.raises(TurnstoneError, match=r"pending call|not now"):
            server.resume(turn, *(answer(call_id) for call_id in calls))
    assert (woken, stored_token(server, turn)) == ([], "token")


@pytest.mark.parametrize("how", ["resumed", "superseded"])
def test_a_failing_wake_up_is_no_failure_of_the_request(serve: Serve, how: str) -> None:
    server = serve([CLIENT_CALL, "done"], DICE)
    ref = opened(server)
    turn = server.paused(ref)
    store_token(server, turn)
    server.supervisor.wake = lambda token: unavailable()  # type: ignore[method-assign]
    broadcast = server.resume(turn, answer("l")) if how == "resumed" else server.start(ref)
    assert outline(server.drain(broadcast)).endswith("complete")
    server.assert_whole(ref)


def test_a_turn_that_waits_again_waits_under_a_token_of_its_own(serve: Serve) -> None:
    held = Held(call("look", "l2"))
    server = serve([CLIENT_CALL, held, "done"], DICE)
    turn = server.paused(opened(server))
    store_token(server, turn, "first")
    woken = woken_when(server, turn)
    resumed = server.resume(turn, answer("l"))
    held.wait()
    assert stored_token(server, turn) is None
    held.open()
    server.drain(resumed)
    assert (stored_token(server, turn), server.state(turn).token) == (None, None)
    store_token(server, turn, "second")
    server.drain(server.resume(turn, answer("l2")))
    assert [token for token, _ in woken] == ["first", "second"]
    server.assert_whole(turn)


def test_a_late_token_does_not_reach_a_turn_that_moved_on(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "done"], DICE)
    turn = server.paused(opened(server))
    server.drain(server.resume(turn, answer("l")))
    with pytest.raises(Conflict):
        store_token(server, turn)
    assert stored_token(server, turn) is None


@pytest.mark.parametrize("how", ["resumed", "superseded"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_a_token_stored_between_read_and_write_is_found_by_a_second_try(serve: Serve, how: str, tokens: int) -> None:
    server = serve([CLIENT_CALL, "done"], DICE)
    ref = opened(server)
    turn = server.paused(ref)
    woken = woken_when(server, turn)
    numbers = iter(range(1, tokens + 1))
    write = resumes_turn if how == "resumed" else opens_turn
    server.store.before(write, lambda: store_token(server, turn, f"token {next(numbers)}"), times=tokens)
    broadcast = server.resume(turn, answer("l")) if how == "resumed" else server.start(ref)
    assert outline(server.drain(broadcast)).endswith("complete")
    assert [token for token, _ in woken] == [f"token {tokens}"]
    assert len(server.inference.requests) == 2
    server.assert_whole(ref)


# ---- lost wake-ups


class Executions:
    """The part of Step Functions that a supervisor calls."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, str]:
        if name in self.given:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists"}}, "StartExecution")
        self.given[name] = json.loads(input)
        return {"executionArn": f"{stateMachineArn}:{name}"}


def test_a_crash_between_the_resume_and_the_wake_is_found_by_a_reader(serve: Serve) -> None:
    """The turn's execution waits for its client and stays asleep: the run gets an execution of its own."""
    server = serve([CLIENT_CALL, "never"], DICE)
    turn = server.paused(opened(server))
    executions = Executions()
    supervisor = StepFunctionsSupervisor(executions, "machine", server.clock, turn_key_of)
    supervisor.watch(turn, server.header(turn).lock)
    store_token(server, turn)
    server.store.after(resumes_turn, server.store.die)
    with pytest.raises(ProcessDied):
        server.resume(turn, answer("l"))
    heir = another(server, "done")
    reader = TurnReader(heir.core.turn_store, AccessRules(owner_only=False), supervisor, server.clock)
    reader.read(LOCAL_CALLER, turn)
    assert list(executions.given) == [turn.turn_id], "a lease that is not over may be in use"
    server.clock.advance(LEASE_S)
    for _ in range(2):
        reader.read(LOCAL_CALLER, turn)
    own = f"{turn.turn_id}-{server.header(turn).lock.fence}-{int(server.clock.now().timestamp() // 3_600)}"
    assert list(executions.given) == [turn.turn_id, own]
    given = executions.given[own]
    assert (given["next"], given["key"]["sk"]) == ("attend", turn_key_of(turn).sk)
    outlook = heir.core.recovery.see_through(TurnRef.model_validate(given["turn"]), server.clock.now() + LONG)
    assert outlook.status is TurnStatus.COMPLETED
    assert len(server.state(turn).turn.steps) == 3
    server.assert_whole(turn)


def test_following_leaves_no_thread_behind(serve: Serve) -> None:
    thinking = Held("done")
    server, second, joined = running_and_joined(serve, thinking)
    looking = [thread for thread in threading.enumerate() if thread.name == "following"]
    assert looking
    assert all(thread.daemon for thread in looking), "a process that ends does not wait for them"
    thinking.open()
    second.drain(joined)
    server.settle()
    for thread in looking:
        thread.join(5)
    assert not any(thread.is_alive() for thread in looking)
