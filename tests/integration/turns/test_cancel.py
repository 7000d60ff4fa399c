"""Cancelling a turn: whatever happens at the same time, it ends once, and its finished steps stay. On either store.

Covers: services/turns/cancelling, services/turns/leases, services/turns/transitions
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, words
from tests.support.engine.either_store import DICE, Make
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Gate,
    Harness,
    Held,
    ProcessDied,
    Server,
    StoreCall,
    answer,
    attempt,
    client_tool,
    completes_turn,
    drained_events,
    eventually,
    opens_turn,
    outline,
    pauses_turn,
    puts_turn,
    resumes_turn,
    saves_step,
    takes_over,
    together,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import (
    Conflict,
    IdempotencyMismatch,
    NotFound,
    StoreUnavailable,
    TurnEnded,
    TurnNotAwaiting,
    TurnstoneError,
)
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.ports.records import AttributeIs, RevIs, Update
from turnstone.store.layout.keys import turn_key_of

ROLL = call("roll", "r")
CLIENT_CALL = call("look", "l")
IN_THE_MIDDLE = "start S:infer P C:infer S:tool P C:tool S:infer"
cancels_turn = puts_turn(TurnStatus.CANCELLED)


def opened(server: Server) -> SessionRef:
    return server.session(toolgroups=["dice"], client_tools=[client_tool()])


def cancel(server: Server, turn: TurnRef, by: Attempt | None = None, caller: Caller = LOCAL_CALLER) -> TurnState:
    return server.core.cancelling.cancel(caller, turn, by or attempt())


def running(server: Server, thinking: Gate) -> TurnRef:
    """Return a turn whose run has reached `thinking`."""
    turn = server.start(opened(server)).ref
    thinking.wait()
    return turn


def assert_cancelled(server: Server, turn: TurnRef, *steps: str) -> None:
    server.assert_whole(turn)
    state = server.state(turn)
    assert (state.status, [step.step_type for step in state.turn.steps]) == (TurnStatus.CANCELLED, list(steps))
    assert (state.turn.output_message.content, state.turn.output_message.tool_calls) == ("", ())
    assert state.turn.completed_at is not None
    assert server.header(turn).lock.state is LockState.IDLE


def is_cancelled_failure(event: object, turn: TurnRef) -> bool:
    return isinstance(event, TurnFailed) and f"turn {turn.turn_id!r} is cancelled" in event.failure.message


# ---- every state


def test_a_running_turn_is_stopped_and_its_finished_steps_stay(make: Make) -> None:
    thinking = Held("never told")
    server = make(ROLL, thinking, "next")
    ref = opened(server)
    broadcast = server.start(ref)
    thinking.wait()
    state = cancel(server, broadcast.ref)
    events = drained_events(broadcast)
    assert outline(events) == f"{IN_THE_MIDDLE} failed:ended"
    assert is_cancelled_failure(events[-1], broadcast.ref)
    assert (state.status, len(state.turn.steps)) == (TurnStatus.CANCELLED, 2)
    thinking.open()
    server.settle()
    assert broadcast.events == list(events), "nothing is published after the end"
    assert_cancelled(server, broadcast.ref, "inference", "tool_execution")
    assert outline(server.whole_turn(ref)).endswith("complete")
    server.assert_whole(ref)


def test_a_cancelled_turn_reads_at_most_one_more_chunk_of_its_model(make: Make) -> None:
    emitted: list[Any] = []
    closed: list[bool] = []
    thinking = Gate()
    server = make(words(3))
    scripted = server.inference.stream

    def slow(request: InferenceRequest) -> Iterator[Any]:
        chunks = scripted(request)
        try:
            for chunk in chunks:
                emitted.append(chunk)
                yield chunk
                if not thinking.reached.is_set():
                    thinking.pass_through()
        finally:
            closed.append(True)

    server.inference.stream = slow  # type: ignore[method-assign]
    turn = running(server, thinking)
    cancel(server, turn)
    thinking.open()
    server.settle()
    assert (len(emitted), closed) == (2, [True]), "of four"
    assert_cancelled(server, turn)


def test_a_turn_that_another_process_runs_is_stopped_by_its_next_write(make: Make) -> None:
    thinking = Held(ROLL)
    server, other = make(thinking), make()
    broadcast = server.start(opened(server))
    thinking.wait()
    cancel(other, broadcast.ref)
    thinking.open()
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P failed:ended"
    assert is_cancelled_failure(events[-1], broadcast.ref)
    assert_cancelled(server, broadcast.ref)
    assert server.tools.invocations == []


def test_a_turn_that_another_process_runs_is_stopped_by_a_renewal(make: Make) -> None:
    thinking = Held(words(2))
    server, other = make(thinking), make()
    broadcast = server.start(opened(server))
    thinking.wait()
    cancel(other, broadcast.ref)
    lease = server.core.leases.find(broadcast.ref)
    assert lease is not None
    server.core.leases._renew(lease)
    thinking.open()
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer failed:ended"
    assert is_cancelled_failure(events[-1], broadcast.ref)


def test_a_waiting_turn_is_cancelled_and_the_model_reads_that_its_call_was_not_run(make: Make) -> None:
    server = make(CLIENT_CALL, "next")
    turn = server.paused(opened(server))
    state = cancel(server, turn)
    assert (state.status, state.pending_calls) == (TurnStatus.CANCELLED, ())
    assert_cancelled(server, turn, "inference")
    with pytest.raises(TurnNotAwaiting):
        server.resume(turn, answer("l"))
    server.whole_turn(turn.session)
    answers = [message for message in server.inference.requests[-1].messages if message.role == "tool"]
    assert [(message.call_id, str(message.content)[:12]) for message in answers] == [("l", "Not executed")]


def test_the_holder_of_a_task_token_is_woken_after_the_cancellation_is_stored(tmp_path: Path) -> None:
    server = Harness(tmp_path, [CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    key = turn_key_of(turn)
    still_waits = AttributeIs("status", TurnStatus.AWAITING_INPUT.value)
    record = server.records.get(key)
    assert record is not None
    server.records.write([Update(key, {"token": "token"}, (RevIs(record.rev), still_waits))])
    woken: list[tuple[str, TurnStatus]] = []
    server.supervisor.wake = lambda token: woken.append((token, server.state(turn).status))  # type: ignore[method-assign]
    cancel(server, turn)
    cancel(server, turn)
    assert woken == [("token", TurnStatus.CANCELLED)]
    server.close()


@pytest.mark.parametrize("state", ["runs", "waits"])
def test_a_second_cancellation_returns_the_same_state_and_writes_nothing(make: Make, state: str) -> None:
    thinking = Held(CLIENT_CALL)
    server = make(thinking)
    broadcast = server.start(opened(server))
    thinking.wait()
    if state == "waits":
        thinking.open()
        server.drain(broadcast)
    first = cancel(server, broadcast.ref).turn
    thinking.open()
    server.settle()
    writes = len([made for made in server.store.calls if made.operations])
    assert cancel(server, broadcast.ref).turn == first
    assert len([made for made in server.store.calls if made.operations]) == writes


def test_a_superseded_turn_is_cancelled_already(make: Make) -> None:
    server = make(CLIENT_CALL, "next")
    turn = server.paused(opened(server))
    server.whole_turn(turn.session)
    state = cancel(server, turn)
    assert (state.status, state.failure and "a new turn" in state.failure.message) == (TurnStatus.CANCELLED, True)


@pytest.mark.parametrize("status", [TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.EXPIRED])
def test_a_turn_that_ended_otherwise_can_not_be_cancelled(make: Make, status: TurnStatus) -> None:
    script = {
        TurnStatus.COMPLETED: "done",
        TurnStatus.FAILED: ScriptedReply(error=StoreUnavailable("x")),
        TurnStatus.EXPIRED: CLIENT_CALL,
    }
    if status is TurnStatus.FAILED:
        script[status] = ScriptedReply(error=RuntimeError("a bug"))
    server = make(script[status])
    broadcast = server.start(opened(server))
    server.drain(broadcast)
    if status is TurnStatus.EXPIRED:
        server.clock.advance(AWAIT_S + 1)  # type: ignore[attr-defined]
        expire(server, broadcast.ref)
    before = server.state(broadcast.ref)
    with pytest.raises(TurnEnded, match=f"is {status}"):
        cancel(server, broadcast.ref)
    assert server.state(broadcast.ref) == before


def test_an_abandoned_turn_is_cancelled_without_being_taken_over(make: Make) -> None:
    server, other = make(ROLL, "never"), make()
    server.store.after(saves_step, server.store.die)
    turn = server.start(opened(server)).ref
    eventually(lambda: server.store.is_dead)
    other.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    assert len(cancel(other, turn).turn.steps) == 1
    assert_cancelled(other, turn, "inference")
    assert other.inference.requests == []


def test_a_missing_turn_and_another_callers_are_not_found(make: Make) -> None:
    server = make(CLIENT_CALL)
    turn = server.paused(opened(server))
    for changes in ({"turn_id": "x"}, {"session_id": "x"}, {"agent_id": "x"}, {"tenant": "x"}):
        with pytest.raises(NotFound):
            cancel(server, turn.model_copy(update=changes))
    assert server.state(turn).status is TurnStatus.AWAITING_INPUT


def test_a_caller_without_access_to_the_session_may_not_cancel(tmp_path: Path) -> None:
    server = Harness(tmp_path, [CLIENT_CALL], DICE, owner_only=True)
    turn = server.paused(opened(server))
    with pytest.raises(NotFound):
        cancel(server, turn, caller=Caller(tenant=LOCAL_CALLER.tenant, principal="somebody else"))
    assert server.state(turn).status is TurnStatus.AWAITING_INPUT
    server.close()


def test_an_idempotency_key_makes_a_cancellation_repeatable_for_one_body(make: Make) -> None:
    server = make(CLIENT_CALL)
    turn = server.paused(opened(server))
    by = attempt("body", key="key")
    assert cancel(server, turn, by).turn == cancel(server, turn, by).turn
    with pytest.raises(IdempotencyMismatch):
        cancel(server, turn, attempt("another body", key="key"))


def test_subscribers_in_another_process_receive_the_cancellation(make: Make) -> None:
    thinking = Held("late")
    server, other = make(thinking), make()
    by = attempt("a request")
    broadcast = server.start(opened(server), by=by)
    thinking.wait()
    joined = other.start(broadcast.ref, by=by.model_copy(update={"is_retry": True}))
    cancel(other, broadcast.ref)
    assert is_cancelled_failure(drained_events(joined)[-1], broadcast.ref)
    thinking.open()
    server.drain(broadcast)


def expire(server: Server, turn: TurnRef) -> None:
    """Reconcile the overdue turn until it has ended: the state machine may store its token at the same time."""
    eventually(lambda: server.core.recovery.reconcile(turn).check_at is None)


# ---- races: writes between the cancellation's read and its write, and the other way round


def test_a_turn_that_ends_first_was_not_cancelled(make: Make) -> None:
    thinking = Held("done")
    server, other = make(thinking), make()
    broadcast = server.start(opened(server))
    thinking.wait()

    def end() -> None:
        thinking.open()
        server.drain(broadcast)

    other.store.before(cancels_turn, end)
    with pytest.raises(TurnEnded, match="completed"):
        cancel(other, broadcast.ref)
    assert server.state(broadcast.ref).status is TurnStatus.COMPLETED
    server.assert_whole(broadcast.ref)


def test_a_turn_that_is_cancelled_first_does_not_end_otherwise(make: Make) -> None:
    server, other = make("done"), make()
    ref = opened(server)
    server.store.before(completes_turn, lambda: cancel(other, turn_of_session(server, ref)))
    events = server.whole_turn(ref)
    assert outline(events) == "start S:infer P failed:ended"
    assert_cancelled(server, turn_of_session(server, ref))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_step_that_is_being_saved_is_kept_if_it_was_stored_first(make: Make, moment: str) -> None:
    server, other = make(ROLL, "late"), make()
    ref = opened(server)
    acting = server.store.before if moment == "before" else server.store.after
    acting(saves_step, lambda: cancel(other, turn_of_session(server, ref)))
    assert outline(server.whole_turn(ref)).endswith("failed:ended")
    assert_cancelled(server, turn_of_session(server, ref), *(["inference"] if moment == "after" else []))


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_turn_that_is_cancelled_before_its_run_has_its_lease_is_cancelled(make: Make, where: str) -> None:
    """The turn is open, and no run of it exists yet that could be stopped."""
    server, other = make(ROLL, "never"), make()
    by = server if where == "here" else other
    ref = opened(server)
    server.store.after(opens_turn, lambda: cancel(by, turn_of_session(server, ref)))
    events = server.whole_turn(ref)
    assert outline(events) == "start S:infer P failed:ended"
    assert is_cancelled_failure(events[-1], turn_of_session(server, ref))
    assert server.tools.invocations == []
    assert_cancelled(server, turn_of_session(server, ref))


def test_a_run_that_fails_before_the_cancellation_is_published_leaves_the_event_to_it(make: Make) -> None:
    """The cancellation is stored but not yet published, and the run can't read the reason of its refused write."""
    thinking = Held(ROLL)
    server = make(thinking)
    broadcast = server.start(opened(server))
    thinking.wait()

    def refuse_the_read() -> None:
        raise StoreUnavailable("not now")

    def let_the_run_find_out() -> None:
        server.store.before(lambda made: made.verb == "gather", refuse_the_read)
        thinking.open()
        with suppress(AssertionError):
            eventually(lambda: broadcast.is_over, patience_s=0.3)

    server.store.after(cancels_turn, let_the_run_find_out)
    cancel(server, broadcast.ref)
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P failed:ended"
    assert is_cancelled_failure(events[-1], broadcast.ref)


def test_a_step_that_is_saved_between_read_and_write_is_kept(make: Make) -> None:
    calling, thinking = Held(ROLL), Held("late")
    server, other = make(calling, thinking), make()
    turn = running(server, calling)

    def continue_the_run() -> None:
        calling.open()
        thinking.wait()

    other.store.before(cancels_turn, continue_the_run)
    assert len(cancel(other, turn).turn.steps) == 2
    thinking.open()
    server.settle()
    assert_cancelled(server, turn, "inference", "tool_execution")


def test_a_pause_that_comes_first_is_cancelled_all_the_same(make: Make) -> None:
    thinking = Held(CLIENT_CALL)
    server, other = make(thinking), make()
    broadcast = server.start(opened(server))
    thinking.wait()

    def pause() -> None:
        thinking.open()
        server.drain(broadcast)

    other.store.before(cancels_turn, pause)
    cancel(other, broadcast.ref)
    assert_cancelled(server, broadcast.ref, "inference")


def test_a_pause_that_comes_too_late_is_none(make: Make) -> None:
    server, other = make(CLIENT_CALL), make()
    ref = opened(server)
    server.store.before(pauses_turn, lambda: cancel(other, turn_of_session(server, ref)))
    assert outline(server.whole_turn(ref)).endswith("failed:ended")
    assert_cancelled(server, turn_of_session(server, ref))


def test_a_resume_that_comes_first_is_stopped(make: Make) -> None:
    thinking = Held("late")
    server, other = make(CLIENT_CALL, thinking), make()
    turn = server.paused(opened(server))
    resumed = []

    def resume() -> None:
        resumed.append(server.resume(turn, answer("l")))
        thinking.wait()

    other.store.before(cancels_turn, resume)
    cancel(other, turn)
    thinking.open()
    assert outline(server.drain(resumed[0])).endswith("failed:ended")
    assert_cancelled(server, turn, "inference", "tool_execution")


def test_a_resume_that_a_cancellation_overtakes_is_refused(make: Make) -> None:
    server, other = make(CLIENT_CALL, "never"), make()
    turn = server.paused(opened(server))
    server.store.before(resumes_turn, lambda: cancel(other, turn))
    with pytest.raises(TurnNotAwaiting, match="cancelled"):
        server.resume(turn, answer("l"))
    assert_cancelled(server, turn, "inference")


@pytest.mark.parametrize("first", ["cancel", "expire"])
def test_of_expiry_and_cancellation_the_first_counts(make: Make, first: str) -> None:
    server, other = make(CLIENT_CALL), make()
    turn = server.paused(opened(server))
    server.clock.advance(AWAIT_S + 1)  # type: ignore[attr-defined]
    if first == "cancel":
        server.store.before(puts_turn(TurnStatus.EXPIRED), lambda: cancel(other, turn))
        expire(server, turn)
        assert_cancelled(server, turn, "inference")
        return
    other.store.before(cancels_turn, lambda: expire(server, turn))
    with pytest.raises(TurnEnded, match="expired"):
        cancel(other, turn)
    assert server.state(turn).status is TurnStatus.EXPIRED


@pytest.mark.parametrize("first", ["cancel", "take over"])
def test_a_takeover_is_stopped_or_does_not_happen(make: Make, first: str) -> None:
    thinking = Held("late")
    server, heir, other = make(ROLL, "never"), make(thinking), make()
    server.store.after(saves_step, server.store.die)
    turn = server.start(opened(server)).ref
    eventually(lambda: server.store.is_dead)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    if first == "cancel":
        heir.store.before(takes_over, lambda: cancel(other, turn))
        assert heir.core.recovery.reconcile(turn).run is None
    else:
        other.store.before(cancels_turn, lambda: heir.core.recovery.reconcile(turn))
        cancel(other, turn)
        thinking.open()
        heir.settle()
    kinds = [step.step_type for step in heir.state(turn).turn.steps]
    assert kinds[:1] == ["inference"]
    assert_cancelled(heir, turn, *kinds)


def test_a_new_turn_and_a_cancellation_of_the_waiting_one_get_along(make: Make) -> None:
    server, other = make(CLIENT_CALL, "next"), make()
    turn = server.paused(opened(server))
    server.store.before(opens_turn, lambda: cancel(other, turn))
    assert outline(server.whole_turn(turn.session)).endswith("complete")
    server.assert_whole(turn)
    assert server.state(turn).status is TurnStatus.CANCELLED


def test_of_concurrent_cancellations_one_is_stored(make: Make) -> None:
    thinking = Held("late")
    server, other = make(thinking), make()
    turn = running(server, thinking)
    states = together(*[lambda: cancel(server, turn), lambda: cancel(other, turn)] * 3)
    assert {state.status for state in states} == {TurnStatus.CANCELLED}
    assert len({state.turn.completed_at for state in states}) == 1
    thinking.open()
    server.settle()
    assert_cancelled(server, turn)


@pytest.mark.parametrize("_", range(4))
def test_of_a_resume_and_a_cancellation_at_once_there_is_one_end(make: Make, _: int) -> None:
    server, other = make(CLIENT_CALL, "done"), make()
    turn = server.paused(opened(server))
    resumed, cancelled = together(lambda: server.resume(turn, answer("l")), lambda: cancel(other, turn))
    if not isinstance(resumed, TurnstoneError):
        server.drain(resumed)
    server.settle()
    is_cancelled = server.state(turn).status is TurnStatus.CANCELLED
    assert is_cancelled == isinstance(cancelled, TurnState)
    server.assert_whole(turn)


def turn_of_session(server: Server, ref: SessionRef) -> TurnRef:
    return TurnRef(**ref.model_dump(include={"tenant", "agent_id", "session_id"}), turn_id=server.states(ref)[0].order)


# ---- the process dies, or the store can't be reached


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_the_write_leaves_the_turn_as_it_was_or_cancelled(make: Make, moment: str) -> None:
    server, other = make(CLIENT_CALL), make()
    turn = server.paused(opened(server))
    (other.store.before if moment == "before" else other.store.after)(cancels_turn, other.store.die)
    with pytest.raises(ProcessDied):
        cancel(other, turn)
    server.assert_whole(turn)
    expected = TurnStatus.AWAITING_INPUT if moment == "before" else TurnStatus.CANCELLED
    assert server.state(turn).status is expected
    assert cancel(server, turn).status is TurnStatus.CANCELLED
    assert_cancelled(server, turn, "inference")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_write_that_may_not_have_happened_can_be_tried_again(make: Make, moment: str) -> None:
    thinking = Held("late")
    server = make(thinking)
    turn = running(server, thinking)

    def unavailable() -> None:
        raise StoreUnavailable("not now")

    (server.store.before if moment == "before" else server.store.after)(cancels_turn, unavailable)
    with pytest.raises(StoreUnavailable):
        cancel(server, turn)
    assert cancel(server, turn).status is TurnStatus.CANCELLED
    thinking.open()
    server.settle()
    assert_cancelled(server, turn)


def test_a_cancellation_under_endless_contention_is_refused_as_retryable(make: Make) -> None:
    server, other = make(CLIENT_CALL), make()
    turn = server.paused(opened(server))

    def refuse() -> None:
        raise Conflict(0, turn_key_of(turn), None)

    other.store.before(cancels_turn, refuse, times=100)
    with pytest.raises(StoreUnavailable):
        cancel(other, turn)


def test_a_cancellation_costs_few_reads_and_one_write_and_one_read_for_an_ended_turn(tmp_path: Path) -> None:
    server = Harness(tmp_path, [CLIENT_CALL], DICE)
    turn = server.paused(opened(server))
    before = len(server.store.calls)
    cancel(server, turn)
    assert verbs(server.store.calls[before:]) == ["gather", "gather", "range", "get", "write"]
    cancel(server, turn)
    assert verbs(server.store.calls[before + 5 :]) == ["gather"]
    server.close()


def verbs(calls: list[StoreCall]) -> list[str]:
    return [made.verb for made in calls]
