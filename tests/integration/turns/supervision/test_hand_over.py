"""A turn that a process hands off before it ends, and the worker that runs such a turn to its end.

Covers: services/turns/leases, services/turns/recovery, services/turns/running
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.fakes.models.scripted import Reply, Scripted, ScriptedReply, call, calls
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Gate,
    Harness,
    Held,
    answer,
    attempt,
    call_number,
    client_tool,
    completes_turn,
    drained_events,
    eventually,
    fails_to_start,
    finished_steps,
    nth,
    outline,
    pauses_turn,
    renews,
    saves_step,
    serving,
    takes_over,
)
from turnstone.bootstrap.core import Core
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed, StoreUnavailable
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.turns.events import TurnEvent, TurnFailed
from turnstone.domain.turns.turns import Step, TurnStatus
from turnstone.ports.records import Delete
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.turns.recovery import MAX_TAKEOVERS, SOON, Outlook
from turnstone.store.layout.keys import session_key, turn_key

Serve = Callable[..., Harness]
ROLL = call("roll", "r")
CLIENT_CALL = call("look", "l")
DICE = {"dice": {"roll": lambda arguments: "4"}}
SHORT_LEASE_S = 0.3
LONG = timedelta(seconds=600)
A_MOMENT_S = 0.05
ENOUGH = 100


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Make servers that work as Lambdas, over one database."""
    for make in serving(tmp_path):

        def make_on_lambda(*arguments: Any, make: Serve = make, **settings: Any) -> Harness:
            return on_lambda(make(*arguments, **settings))

        yield make_on_lambda


def on_lambda(server: Harness) -> Harness:
    server.core = Core(server.core.foundation.ports, server.core.foundation.settings, is_on_lambda=True).load()
    server.turns, server.reader = server.core.turns, server.core.reader
    return server


def another(server: Harness, *script: Scripted) -> Harness:
    return on_lambda(server.another(script or ["That is all."] * ENOUGH, DICE))


def unavailable() -> None:
    raise StoreUnavailable("not now")


def opened(server: Harness) -> SessionRef:
    return server.session(toolgroups=["dice"], client_tools=[client_tool()])


def running(server: Harness, thinking: Gate) -> TurnBroadcast:
    """Return a turn whose run has reached `thinking`."""
    broadcast = server.start(opened(server))
    thinking.wait()
    return broadcast


def hand_off(server: Harness, turn: TurnRef) -> threading.Thread:
    """Begin a hand-off of the turn in a thread of its own, as the edge does."""
    thread = threading.Thread(target=server.turns.hand_off, args=(turn,))
    thread.start()
    return thread


def watched_locks(server: Harness) -> list[SessionLock]:
    """Return a list that collects the locks that the supervisor receives."""
    locks: list[SessionLock] = []
    watch = server.supervisor.watch

    def noting(turn: TurnRef, lock: SessionLock) -> None:
        locks.append(lock)
        watch(turn, lock)

    server.supervisor.watch = noting  # type: ignore[method-assign]
    return locks


def writes(server: Harness) -> int:
    return len([made for made in server.store.calls if made.operations])


def seen_through(server: Harness, turn: TurnRef, stays: timedelta = LONG) -> Outlook:
    outlook = server.core.recovery.see_through(turn, server.clock.now() + stays)
    server.settle()
    return outlook


def as_observed(outlook: Outlook) -> tuple[TurnStatus | None, datetime | None]:
    return outlook.status, outlook.check_at


# ---- the effects of a hand-off


def test_a_hand_off_ends_the_lease_notifies_the_supervisor_and_ends_the_answer(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([ROLL, thinking], DICE)
    locks = watched_locks(server)
    broadcast = running(server, thinking)
    fence = server.header(broadcast.ref).lock.fence
    server.clock.advance(1)
    server.turns.hand_off(broadcast.ref)
    now = server.clock.now()
    over = SessionLock(state=LockState.RUNNING, order=broadcast.ref.turn_id, fence=fence, lease_until=now)
    assert locks == [over]
    assert over == server.header(broadcast.ref).lock
    assert over.is_abandoned(now)
    last = broadcast.events[-1]
    assert isinstance(last, TurnFailed)
    assert (last.turn_id, last.failure.kind, broadcast.is_over) == (broadcast.ref.turn_id, "handed_over", True)
    assert broadcast.ref.turn_id in last.failure.message
    server.assert_whole(broadcast.ref)
    thinking.open()


LATE = {
    "an answer": "late",
    "a call that has to be stored": ROLL,
    "a pause": CLIENT_CALL,
    "a failure of the model": ScriptedReply(error=ModelFailed("broken")),
    "a bug": ScriptedReply(error=RuntimeError("a bug")),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_after_a_hand_off_the_run_writes_and_publishes_nothing(serve: Serve, late: Reply) -> None:
    thinking = Held(late)
    server = serve([ROLL, thinking, "never"], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    before, written, published = server.dump(), writes(server), list(broadcast.events)
    watched = dict(server.supervisor.watched)
    thinking.open()
    server.settle()
    assert before == server.dump()
    assert (written, published, watched) == (writes(server), broadcast.events, server.supervisor.watched)
    assert len(server.inference.requests) == 2
    server.assert_whole(broadcast.ref)


def test_another_process_continues_at_once_from_the_last_stored_step(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([ROLL, thinking], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    heir = another(server, "You rolled 4.")
    assert seen_through(heir, broadcast.ref).status is TurnStatus.COMPLETED
    thinking.open()
    server.settle()
    state = server.state(broadcast.ref)
    published = finished_steps(broadcast.events)
    assert (len(published), published) == (2, state.turn.steps[:2])
    assert (len(state.turn.steps), state.turn.output_message.content) == (3, "You rolled 4.")
    assert not heir.tools.invocations
    server.assert_whole(broadcast.ref)


def test_the_lease_is_not_prolonged_by_a_renewal_that_was_under_way(serve: Serve) -> None:
    thinking, renewing = Held("late"), Gate()
    server = serve([thinking], DICE, lease_seconds=SHORT_LEASE_S)
    server.store.before(renews, renewing.pass_through)
    broadcast = running(server, thinking)
    renewing.wait()
    handing = hand_off(server, broadcast.ref)
    handing.join(A_MOMENT_S)
    renewing.open()
    handing.join()
    server.core.leases.close()
    assert server.header(broadcast.ref).lock.is_abandoned(server.clock.now())
    thinking.open()


def test_the_lease_is_not_prolonged_by_a_renewal_that_was_about_to_be_made(serve: Serve) -> None:
    """The keeper renews one lease after the other; the second is released while it renews the first."""
    gates, renewing = [Held("late"), Held("late")], Gate()
    server = serve(gates, DICE, lease_seconds=SHORT_LEASE_S)
    server.store.before(renews, renewing.pass_through)
    broadcasts = [running(server, thinking) for thinking in gates]
    renewing.wait()
    (first,) = [made.operations[0].key for made in server.store.calls if renews(made)]
    (later,) = [broadcast for broadcast in broadcasts if session_key(broadcast.ref) != first]
    server.turns.hand_off(later.ref)
    renewing.open()
    server.core.leases.close()
    assert server.header(later.ref).lock.is_abandoned(server.clock.now())
    for thinking in gates:
        thinking.open()


def test_model_output_during_the_hand_off_is_not_published_before_its_end(serve: Serve) -> None:
    """The run loses the lease a round trip before the supervisor is notified; it must not publish that as the end."""
    thinking, ending, watching = Held(ScriptedReply(texts=("one", "two", "three"))), Gate(), Gate()
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.store.before(renews, ending.pass_through)
    server.supervisor.on_watch = watching.pass_through
    handing = hand_off(server, broadcast.ref)
    ending.wait()
    thinking.open()
    time.sleep(A_MOMENT_S)
    ending.open()
    watching.wait()
    assert not broadcast.is_over, (
        "no event may be published before the supervisor is notified: a process is frozen after its answer"
    )
    watching.open()
    handing.join()
    assert outline(server.drain(broadcast)) == "start S:infer failed:handed_over"


def test_a_run_that_crashes_during_the_hand_off_does_not_fail_the_turn(serve: Serve) -> None:
    thinking, watching = Held(ScriptedReply(error=RuntimeError("a bug"))), Gate()
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.supervisor.on_watch = watching.pass_through
    handing = hand_off(server, broadcast.ref)
    watching.wait()
    thinking.open()
    time.sleep(A_MOMENT_S)
    watching.open()
    handing.join()
    assert outline(server.drain(broadcast)) == "start S:infer failed:handed_over"
    assert server.state(broadcast.ref).status is TurnStatus.IN_PROGRESS


# ---- at every moment


class SlowStart:
    """Stands for the executor's threads; a run begins when the gate is opened."""

    def __init__(self, server: Harness) -> None:
        self.gate = Gate()
        self._pool = server.core.executor._pool
        server.core.executor._pool = self  # type: ignore[assignment]

    def submit(self, run: Callable[[], None]) -> Any:
        def begin() -> None:
            self.gate.pass_through()
            run()

        return self._pool.submit(begin)


def test_a_hand_off_before_the_run_begins_succeeds(serve: Serve) -> None:
    """This happens when the process's time is over at the start."""
    server = serve(["never"], DICE)
    begins = SlowStart(server)
    broadcast = server.start(opened(server))
    server.turns.hand_off(broadcast.ref)
    assert server.header(broadcast.ref).lock.is_abandoned(server.clock.now())
    assert server.supervisor.watched == {broadcast.ref: server.clock.now()}
    before = server.dump()
    begins.gate.open()
    assert outline(server.drain(broadcast)) == "start failed:handed_over"
    assert (before, []) == (server.dump(), server.inference.requests)
    assert seen_through(another(server), broadcast.ref).status is TurnStatus.COMPLETED
    server.assert_whole(broadcast.ref)


def test_a_hand_off_of_a_turn_that_has_just_ended_publishes_its_end(serve: Serve) -> None:
    server = serve(["done"], DICE)
    ref = opened(server)
    end = server.core.broadcasts.end

    def hand_off_first(broadcast: TurnBroadcast, *events: TurnEvent) -> None:
        server.core.broadcasts.end = end  # type: ignore[method-assign]
        server.turns.hand_off(broadcast.ref)
        end(broadcast, *events)

    server.core.broadcasts.end = hand_off_first  # type: ignore[method-assign]
    assert outline(server.whole_turn(ref)) == "start S:infer P C:infer complete"
    assert not server.supervisor.watched


@pytest.mark.parametrize("script", [["done"], [CLIENT_CALL]], ids=["ended", "waits"])
def test_a_turn_that_does_not_run_any_more_is_left_as_it_is(serve: Serve, script: list[Scripted]) -> None:
    server = serve(script, DICE)
    broadcast = server.start(opened(server))
    events = server.drain(broadcast)
    before, watched = server.dump(), dict(server.supervisor.watched)
    server.turns.hand_off(broadcast.ref)
    server.turns.hand_off(broadcast.ref.model_copy(update={"turn_id": "unknown"}))
    assert (before, watched, events) == (server.dump(), server.supervisor.watched, tuple(broadcast.events))


def test_a_second_hand_off_of_a_turn_does_nothing(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    server.supervisor.watched.clear()
    written = writes(server)
    server.turns.hand_off(broadcast.ref)
    assert (written, {}) == (writes(server), server.supervisor.watched)
    thinking.open()


def test_after_a_hand_off_the_same_process_may_take_the_turn_over(serve: Serve) -> None:
    """This happens when the process is used again before its run has noticed."""
    thinking = Held("late")
    server = serve([thinking, "in time"], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    run = server.core.recovery.reconcile(broadcast.ref).run
    assert run is not None
    assert outline(drained_events(run)).endswith("complete")
    thinking.open()
    server.settle()
    assert server.state(broadcast.ref).turn.output_message.content == "in time"
    server.assert_whole(broadcast.ref)


ANSWERS = {
    "plain": "A plain answer.",
    "roll": ROLL,
    "look": CLIENT_CALL,
    "roll and look": calls(CLIENT_CALL, ROLL),
}
KINDS = {
    "plain": ["inference"],
    "roll": ["inference", "tool_execution", "inference"],
    "look": ["inference", "tool_execution", "inference"],
    "roll and look": ["inference", "tool_execution", "tool_execution", "inference"],
}
LAST_WORDS = ("complete", "awaiting", "failed:handed_over")


def answering(request: InferenceRequest) -> Reply:
    last = request.messages[-1]
    return ANSWERS[str(last.content)] if last.role == "user" else "That is all."


@pytest.mark.parametrize("message", ANSWERS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_hand_off_at_any_call_of_the_store(tmp_path: Path, message: str, moment: str) -> None:
    """Before the first step, between two, in the write that pauses or ends the turn, and after it."""
    number, was_made = 0, True
    outlines = set()
    while was_made:
        number += 1
        for make in serving(Path(mkdtemp(dir=tmp_path))):
            server = on_lambda(make([answering] * ENOUGH, DICE))
            was_made, ended = hand_off_at(server, message, moment, number)
            outlines |= ended
    assert number > 3
    # a run of one inference makes no store call between the turn's opening and its end: no call follows the first
    is_interrupted = moment == "before" or message in ("roll", "roll and look")
    expected = {"complete", "failed:handed_over"} if is_interrupted else {"complete"}
    assert {word for word in LAST_WORDS if any(ended.endswith(word) for ended in outlines)} >= expected


def hand_off_at(server: Harness, message: str, moment: str, number: int) -> tuple[bool, set[str]]:
    """Hand the session's turn off at that call; return whether the call was made, and the outlines of the runs."""
    ref = opened(server)
    made_before = len(server.store.calls)
    acting = server.store.before if moment == "before" else server.store.after
    acting(call_number(made_before + number), lambda: hand_off_open(server))
    published: list[Step] = []
    outlines = set()
    events = server.whole_turn(ref, message)
    (state,) = server.states(ref)
    turn = TurnRef(**ref.model_dump(), turn_id=state.order)
    published += finished_steps(events)
    outlines.add(outline(events))
    continue_elsewhere(server, turn)
    if server.state(turn).status is TurnStatus.AWAITING_INPUT:
        events = server.drain(server.resume(turn, answer("l")))
        published += finished_steps(events)
        outlines.add(outline(events))
        continue_elsewhere(server, turn)
    state = server.state(turn)
    assert all(words.endswith(LAST_WORDS) for words in outlines), outlines
    assert (state.status, KINDS[message]) == (TurnStatus.COMPLETED, [step.step_type for step in state.turn.steps])
    assert published == [step for step in state.turn.steps if step in published]
    server.assert_whole(ref)
    return len(server.store.calls) >= made_before + number, outlines


def hand_off_open(server: Harness) -> None:
    for turn in list(server.core.broadcasts._by_turn):
        server.turns.hand_off(turn)


def continue_elsewhere(server: Harness, turn: TurnRef) -> None:
    """Let another process run the turn if it is watched as due: no lease is waited for."""
    if server.supervisor.watched.pop(turn, server.clock.now() + LONG) <= server.clock.now():
        outlook = seen_through(another(server, *[answering] * ENOUGH), turn)
        assert outlook.status in (TurnStatus.COMPLETED, TurnStatus.AWAITING_INPUT)
    server.assert_whole(turn)


# ---- while the store or the supervisor is unavailable


def test_if_the_lease_can_not_be_ended_the_supervisor_checks_when_it_is_over(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    until = server.header(broadcast.ref).lock.lease_until
    server.clock.advance(1)
    server.store.before(renews, unavailable)
    server.turns.hand_off(broadcast.ref)
    assert outline(broadcast.events) == "start S:infer failed:handed_over"
    assert until is not None
    assert server.supervisor.watched[broadcast.ref] >= until
    before = server.dump()
    thinking.open()
    server.settle()
    assert before == server.dump()
    server.clock.advance(LEASE_S)
    assert server.supervisor.watched[broadcast.ref] <= server.clock.now()
    assert seen_through(another(server), broadcast.ref).status is TurnStatus.COMPLETED
    server.assert_whole(broadcast.ref)


def test_without_a_supervisor_the_turn_is_left_to_its_next_reader(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.supervisor.on_watch = unavailable
    server.turns.hand_off(broadcast.ref)
    assert outline(broadcast.events) == "start S:infer failed:handed_over"
    reader = another(server)
    reader.reader.read(LOCAL_CALLER, broadcast.ref)
    assert reader.supervisor.watched == {broadcast.ref: server.clock.now()}
    assert seen_through(reader, broadcast.ref).status is TurnStatus.COMPLETED
    thinking.open()
    server.settle()
    server.assert_whole(broadcast.ref)


def test_a_turn_that_others_took_over_already_is_left_to_them(serve: Serve) -> None:
    """This process stood still; its hand-off comes too late to end any lease."""
    thinking, other_thinking = Held(ScriptedReply(texts=("late",))), Held("in time")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.clock.advance(LEASE_S)
    heir = another(server, other_thinking)
    heir.reconcile_turn(broadcast.ref)
    other_thinking.wait()
    before = server.dump()
    server.turns.hand_off(broadcast.ref)
    assert (before, {}) == (server.dump(), server.supervisor.watched)
    thinking.open()
    assert outline(server.drain(broadcast)) == "start S:infer failed:lease_lost"
    other_thinking.open()
    heir.settle()
    assert server.state(broadcast.ref).status is TurnStatus.COMPLETED


def test_the_answer_of_a_retry_that_waits_for_another_process_ends_at_the_deadline_too(serve: Serve) -> None:
    thinking = Held("in time")
    server = serve([thinking], DICE)
    by = attempt("a request")
    ref = opened(server)
    broadcast = server.start(ref, by=by)
    thinking.wait()
    second = another(server)
    joined = second.start(ref, by=by.model_copy(update={"is_retry": True}))
    assert joined.ref == broadcast.ref
    before = server.dump()
    second.turns.hand_off(joined.ref)
    assert outline(joined.events) == "failed:handed_over"
    assert before == server.dump()
    assert second.core.broadcasts.find(joined.ref) is None
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")


# ---- how often


def test_hand_offs_of_a_turn_that_advances_in_between_do_not_count(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([ROLL, thinking], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    thinking.open()
    for _ in range(MAX_TAKEOVERS + 1):
        thinking = Held("late")
        heir = another(server, ROLL, thinking)
        heir.reconcile_turn(broadcast.ref)
        thinking.wait()
        heir.turns.hand_off(broadcast.ref)
        thinking.open()
        heir.settle()
        assert server.state(broadcast.ref).status is TurnStatus.IN_PROGRESS
    assert seen_through(another(server), broadcast.ref).status is TurnStatus.COMPLETED
    assert len(server.state(broadcast.ref).turn.steps) == 2 * (MAX_TAKEOVERS + 2) + 1
    server.assert_whole(broadcast.ref)


def test_hand_offs_without_progress_fail_the_turn_in_the_end(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([ROLL, thinking], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    thinking.open()
    for number in range(MAX_TAKEOVERS):
        assert server.state(broadcast.ref).takeovers_in_vain == number
        thinking = Held("late")
        heir = another(server, thinking)
        heir.reconcile_turn(broadcast.ref)
        thinking.wait()
        heir.turns.hand_off(broadcast.ref)
        thinking.open()
        heir.settle()
    last = another(server)
    assert as_observed(seen_through(last, broadcast.ref)) == (TurnStatus.FAILED, None)
    state = server.state(broadcast.ref)
    assert (len(state.turn.steps), len(last.inference.requests)) == (2, 0)
    server.assert_whole(broadcast.ref)


def test_a_step_stored_after_a_takeover_resets_the_count(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    thinking.open()
    server.settle()
    in_vain = []
    for script in ([], [], [ROLL], [], []):
        thinking = Held("late")
        heir = another(server, *script, thinking)
        heir.reconcile_turn(broadcast.ref)
        thinking.wait()
        heir.turns.hand_off(broadcast.ref)
        thinking.open()
        heir.settle()
        in_vain.append(server.state(broadcast.ref).takeovers_in_vain)
    assert in_vain == [1, 2, 0, 1, 2]


# ---- the worker runs a turn to its end


def abandoned(server: Harness, thinking: Gate) -> TurnRef:
    """Return a turn that its process handed off."""
    broadcast = running(server, thinking)
    server.turns.hand_off(broadcast.ref)
    return broadcast.ref


def test_the_worker_stays_with_a_turn_until_it_ends(serve: Serve) -> None:
    late, thinking = Held("late"), Held("done")
    server = serve([late], DICE)
    turn = abandoned(server, late)
    late.open()
    worker = another(server, thinking)
    outlooks: list[Outlook] = []
    stays = threading.Thread(target=lambda: outlooks.append(worker.core.recovery.see_through(turn, far(server))))
    stays.start()
    thinking.wait()
    stays.join(A_MOMENT_S)
    assert (stays.is_alive(), outlooks) == (True, [])
    thinking.open()
    stays.join()
    assert [as_observed(outlook) for outlook in outlooks] == [(TurnStatus.COMPLETED, None)]


def far(server: Harness) -> datetime:
    return server.clock.now() + LONG


def assert_left_to_the_next(outlook: Outlook, now: datetime) -> None:
    assert outlook.status is TurnStatus.IN_PROGRESS
    assert outlook.check_at is not None
    assert outlook.check_at - now <= SOON


def test_the_worker_leaves_a_turn_that_pauses_to_its_client(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    thinking.open()
    observed = as_observed(seen_through(another(server, CLIENT_CALL), turn))
    assert observed == (TurnStatus.AWAITING_INPUT, server.clock.now() + timedelta(seconds=AWAIT_S))
    server.assert_whole(turn)


@pytest.mark.parametrize("stays_s", [0.0, -5.0, 0.05], ids=["over at the start", "long over", "over soon"])
def test_a_worker_whose_own_time_is_over_leaves_the_turn_to_the_next_at_once(serve: Serve, stays_s: float) -> None:
    thinking, worker_thinking = Held("late"), Held("late, too")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    thinking.open()
    worker = another(server, worker_thinking)
    outlook = worker.core.recovery.see_through(turn, server.clock.now() + timedelta(seconds=stays_s))
    assert_left_to_the_next(outlook, server.clock.now())
    assert server.header(turn).lock.is_abandoned(server.clock.now())
    assert not worker.supervisor.watched, "the machine that invoked the worker polls again by itself"
    before = server.dump()
    worker_thinking.open()
    worker.settle()
    assert before == server.dump()
    assert seen_through(another(server), turn).status is TurnStatus.COMPLETED
    server.assert_whole(turn)


def test_a_turn_whose_worker_can_not_end_its_lease_is_checked_when_the_lease_is_over(serve: Serve) -> None:
    thinking, worker_thinking = Held("late"), Held("late, too")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    worker = another(server, worker_thinking)
    worker.store.before(renews, unavailable)
    assert_left_to_the_next(worker.core.recovery.see_through(turn, server.clock.now()), server.clock.now())
    lock = server.header(turn).lock
    assert as_observed(seen_through(another(server), turn)) == (TurnStatus.IN_PROGRESS, lock.lease_until)
    thinking.open()
    worker_thinking.open()


def test_a_run_that_is_over_before_the_worker_polls_reports_its_end(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    thinking.open()
    worker = another(server)
    submit = worker.core.executor._pool.submit

    def at_once(run: Callable[[], None]) -> Any:
        future = submit(run)
        future.result()
        return future

    worker.core.executor._pool.submit = at_once  # type: ignore[method-assign,assignment]
    assert as_observed(seen_through(worker, turn)) == (TurnStatus.COMPLETED, None)


def test_the_worker_leaves_a_turn_alone_that_another_process_runs(serve: Serve) -> None:
    thinking = Held("done")
    server = serve([thinking], DICE)
    broadcast = running(server, thinking)
    worker = another(server)
    before = server.dump()
    observed = as_observed(seen_through(worker, broadcast.ref))
    assert observed == (TurnStatus.IN_PROGRESS, server.header(broadcast.ref).lock.lease_until)
    assert (before, []) == (server.dump(), worker.inference.requests)
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")


def test_the_worker_leaves_a_turn_alone_that_waits_and_expires_one_that_waited_too_long(serve: Serve) -> None:
    server = serve([CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    worker = another(server)
    before = server.dump()
    until = server.clock.now() + timedelta(seconds=AWAIT_S)
    assert as_observed(seen_through(worker, turn)) == (TurnStatus.AWAITING_INPUT, until)
    assert before == server.dump()
    server.clock.at = until - timedelta(microseconds=1)
    assert as_observed(seen_through(worker, turn)) == (TurnStatus.AWAITING_INPUT, until)
    server.clock.at = until
    assert as_observed(seen_through(worker, turn)) == (TurnStatus.EXPIRED, None)
    assert as_observed(seen_through(worker, turn)) == (TurnStatus.EXPIRED, None)
    server.assert_whole(turn)


@pytest.mark.parametrize("missing", ["session", "turn"])
def test_a_turn_that_was_removed_is_gone(serve: Serve, missing: str) -> None:
    server = serve([CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    key = session_key(turn) if missing == "session" else turn_key(turn, turn.turn_id)
    server.records.write([Delete(key)])
    assert as_observed(seen_through(another(server), turn)) == (None, None)


def test_a_worker_that_is_overtaken_by_another_checks_again_soon(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    rival_thinking = Held("done")
    rival = another(server, rival_thinking)
    worker = another(server)
    worker.store.before(takes_over, lambda: rival.reconcile_turn(turn))
    outlook = seen_through(worker, turn)
    assert outlook.status is TurnStatus.IN_PROGRESS
    assert outlook.check_at is not None
    assert server.clock.now() < outlook.check_at <= server.clock.now() + timedelta(seconds=LEASE_S)
    assert not worker.inference.requests
    rival_thinking.open()
    rival.settle()
    thinking.open()
    server.settle()
    assert server.state(turn).status is TurnStatus.COMPLETED
    server.assert_whole(turn)


def test_a_worker_that_dies_leaves_the_turn_to_the_next(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    turn = abandoned(server, thinking)
    thinking.open()
    worker = another(server, ROLL, "never told")
    worker.store.before(completes_turn, worker.store.die)
    worker.reconcile_turn(turn)
    worker.settle()
    server.clock.advance(LEASE_S)
    assert seen_through(another(server), turn).status is TurnStatus.COMPLETED
    assert len(server.state(turn).turn.steps) == 3
    server.assert_whole(turn)


def test_a_hand_off_while_a_pause_is_being_stored_has_no_effect_on_the_pause(serve: Serve) -> None:
    server = serve([ROLL, CLIENT_CALL], DICE)
    ref = opened(server)
    server.store.after(pauses_turn, lambda: hand_off_open(server))
    broadcast = server.start(ref)
    assert outline(server.drain(broadcast)).endswith("awaiting")
    assert server.supervisor.watched == {broadcast.ref: server.clock.now() + timedelta(seconds=AWAIT_S)}
    server.assert_whole(ref)


def test_a_hand_off_between_two_steps_keeps_the_step_that_was_being_stored(serve: Serve) -> None:
    server = serve([ROLL, "never"], DICE)
    ref = opened(server)
    server.store.before(nth(2, saves_step), lambda: hand_off_open(server))
    broadcast = server.start(ref)
    assert outline(server.drain(broadcast)).endswith("S:tool P failed:handed_over")
    assert len(server.state(broadcast.ref).turn.steps) == 2
    worker = another(server)
    assert seen_through(worker, broadcast.ref).status is TurnStatus.COMPLETED
    assert not worker.tools.invocations
    eventually(lambda: not server.core.leases._held)
    server.assert_whole(ref)


def test_a_turn_without_a_thread_is_left_to_the_supervisor_and_runs_later(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(["done"])
    session = server.session()
    with fails_to_start(monkeypatch, "turn"):
        events = server.whole_turn(session)
    assert outline(events).endswith("failed:handed_over")
    assert server.core.executor.taken == 0
    server.reconcile_after_leases()
    (state,) = server.states(session)
    assert (state.status, state.takeovers) == (TurnStatus.COMPLETED, 1)
