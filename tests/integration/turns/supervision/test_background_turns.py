"""A turn in the background is stored once and run once, whichever process claims it, and keeps its session until then.

Covers: services/turns/opening, services/turns/recovery, services/threads/queued_runs, services/turns/transitions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Harness,
    Held,
    attempt,
    client_tool,
    eventually,
    opens_turn,
    outline,
    serving,
    together,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, NotFound, Overloaded, StoreUnavailable, TurnEnded, TurnRunning
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import UNCLAIMED_AFTER, LockState
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.services.operations.open_turns import OpenTurns
from turnstone.services.streams.broadcast import Received
from turnstone.services.threads.publisher import Subscriber
from turnstone.services.threads.slots import QueueLimits

Serve = Callable[..., Harness]
ROOM = QueueLimits(30, requests=3, requests_of_tenant=3)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def busy(serve: Serve, *more: object) -> tuple[Harness, Held, SessionRef]:
    """Return a server whose only slot is taken, what holds it, and another session."""
    thinking = Held("first")
    server = serve([thinking, *more], max_running_turns=1)
    server.core.executor._slots.limits = ROOM
    server.start(server.session())
    thinking.wait()
    return server, thinking, server.session()


def queued(serve: Serve) -> tuple[Harness, TurnRef]:
    """Return a process that runs nothing in the background, and a turn that it queued."""
    front = serve(is_on_lambda=True)
    return front, front.start_in_background(front.session()).ref


def answered(server: Harness, turn: TurnRef) -> str:
    eventually(lambda: server.state(turn).status.is_terminal)
    server.settle()
    server.assert_whole(turn)
    assert server.state(turn).status is TurnStatus.COMPLETED
    return str(server.state(turn).turn.output_message.content)


def test_with_a_free_slot_it_runs_at_once_here(serve: Serve) -> None:
    server = serve(["done"])
    started = server.start_in_background(server.session())
    assert not started.is_queued
    assert answered(server, started.ref) == "done"


def test_without_a_slot_it_is_queued_and_runs_once_there_is_one(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "second")
    started = server.start_in_background(ref)
    lock = server.header(ref).lock
    assert (started.is_queued, lock.state, lock.lease_until) == (True, LockState.QUEUED, None)
    server.assert_whole(ref)
    thinking.open()
    assert answered(server, started.ref) == "second"
    state = server.state(started.ref)
    assert (state.takeovers, len(server.inference.requests)) == (0, 2)


def test_queued_turns_run_in_the_order_of_their_opening(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "one", "two", "three")
    turns = [server.start_in_background(each).ref for each in (ref, server.session(), server.session())]
    thinking.open()
    assert [answered(server, turn) for turn in turns] == ["one", "two", "three"]


def test_a_full_queue_refuses_it_before_anything_is_stored(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "a", "b", "c")
    turns = [server.start_in_background(server.session()).ref for _ in range(ROOM.requests)]
    before = server.dump()
    with pytest.raises(Overloaded):
        server.start_in_background(ref)
    assert server.dump() == before
    thinking.open()
    for turn in turns:
        answered(server, turn)


def test_a_stopping_server_refuses_it_before_anything_is_stored(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    before = server.dump()
    server.core.executor.refuse_more()
    with pytest.raises(Overloaded):
        server.start_in_background(ref)
    assert server.dump() == before


def test_a_failed_write_leaves_the_queue(serve: Serve) -> None:
    server, thinking, ref = busy(serve)

    def fail() -> None:
        raise StoreUnavailable("no disk")

    server.store.before(opens_turn, fail)
    with pytest.raises(StoreUnavailable):
        server.start_in_background(ref)
    assert server.core.executor.queued == 0
    thinking.open()
    server.settle()
    assert server.header(ref).lock.state is LockState.IDLE


def test_a_slot_that_comes_before_the_write_runs_it_all_the_same(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "second")

    def free_the_slot() -> None:
        thinking.open()
        eventually(lambda: server.core.executor.queued == 0)

    server.store.before(opens_turn, free_the_slot)
    assert answered(server, server.start_in_background(ref).ref) == "second"


def test_on_a_host_without_background_work_a_worker_claims_it_and_counts_no_takeover(serve: Serve) -> None:
    front, turn = queued(serve)
    assert front.supervisor.watched == {turn: front.clock.now()}
    assert front.core.executor.taken == 0
    worker = front.another(["worked"])
    outlook = worker.core.recovery.see_through(turn, worker.clock.now() + UNCLAIMED_AFTER)
    assert (outlook.status, outlook.check_at) == (TurnStatus.COMPLETED, None)
    assert answered(worker, turn) == "worked"
    assert worker.state(turn).takeovers == 0


def test_two_processes_claim_it_once(serve: Serve) -> None:
    front, turn = queued(serve)
    workers = [front.another(["worked"]), front.another(["worked"])]
    together(*(partial(worker.core.recovery.reconcile, turn) for worker in workers))
    for worker in workers:
        worker.settle()
    assert answered(front, turn) == "worked"
    assert sum(len(worker.inference.requests) for worker in workers) == 1


def test_a_claim_shuts_out_one_that_read_before_it(serve: Serve) -> None:
    front, turn = queued(serve)
    late, early = front.another(["late"]), front.another(["early"])
    late.store.before(lambda call: call.verb == "write", lambda: early.core.recovery.reconcile(turn))
    late.core.recovery.reconcile(turn)
    late.settle()
    early.settle()
    assert answered(front, turn) == "early"
    assert late.inference.requests == []


def test_a_server_that_starts_runs_what_was_queued_at_once(serve: Serve) -> None:
    server, _, ref = busy(serve)
    turn = server.start_in_background(ref).ref
    server.store.is_dead = True
    second = server.another(["after the restart"])
    second.reconcile_open()
    assert answered(second, turn) == "after the restart"


def test_a_stop_leaves_what_is_queued_to_the_next_process(serve: Serve) -> None:
    server, thinking, ref = busy(serve)
    turn = server.start_in_background(ref).ref
    server.core.executor.refuse_more()
    thinking.open()
    server.settle()
    assert server.header(ref).lock.state is LockState.QUEUED
    second = server.another(["later"])
    second.reconcile_open()
    assert answered(second, turn) == "later"


def test_the_sweeper_finds_it(serve: Serve) -> None:
    front, turn = queued(serve)
    other = front.another(["swept"])
    swept = other.core.sweeper.sweep(other.clock.now() + UNCLAIMED_AFTER)
    assert swept.taken_over == (turn,)
    assert answered(other, turn) == "swept"


@pytest.mark.parametrize("late_s", [0, UNCLAIMED_AFTER.total_seconds()])
def test_a_reader_reports_it_once_it_should_have_been_claimed(serve: Serve, late_s: float) -> None:
    front, turn = queued(serve)
    front.supervisor.watched.clear()
    front.clock.advance(late_s)
    read = front.reader.read(LOCAL_CALLER, turn)
    assert (read.state.status, turn in front.supervisor.watched) == (TurnStatus.IN_PROGRESS, late_s > 0)


def test_a_newer_request_is_refused_however_late_the_claim_is(serve: Serve) -> None:
    front, turn = queued(serve)
    for wait_s in (0, LEASE_S, AWAIT_S):
        front.clock.advance(wait_s)
        with pytest.raises(TurnRunning) as refused:
            front.start(turn.session)
        assert refused.value.turn_id == turn.turn_id
        with pytest.raises(TurnRunning):
            front.start_in_background(turn.session)
    assert turn in front.supervisor.watched
    worker = front.another(["still mine"])
    worker.reconcile_open()
    assert answered(worker, turn) == "still mine"


def test_a_cancelled_one_never_runs(serve: Serve) -> None:
    server, thinking, ref = busy(serve)
    turn = server.start_in_background(ref).ref
    state = server.core.cancelling.cancel(LOCAL_CALLER, turn, attempt())
    assert (state.status, server.header(ref).lock.state) == (TurnStatus.CANCELLED, LockState.IDLE)
    thinking.open()
    server.settle()
    eventually(lambda: server.core.executor.queued == 0)
    assert (server.state(turn).status, len(server.inference.requests)) == (TurnStatus.CANCELLED, 1)
    server.assert_whole(ref)


@pytest.mark.parametrize("wins", ["cancel", "claim"])
def test_of_a_cancel_and_a_claim_at_once_one_wins(serve: Serve, wins: str) -> None:
    front, turn = queued(serve)
    worker = front.another(["claimed"])

    def cancel() -> None:
        front.core.cancelling.cancel(LOCAL_CALLER, turn, attempt())

    writes = lambda call: call.verb == "write"  # noqa: E731 - a matcher
    if wins == "cancel":
        worker.store.before(writes, cancel)
        worker.core.recovery.reconcile(turn)
        worker.settle()
        assert (worker.state(turn).status, worker.inference.requests) == (TurnStatus.CANCELLED, [])
    else:
        front.store.before(writes, lambda: worker.core.recovery.see_through(turn, worker.clock.now() + UNCLAIMED_AFTER))
        with pytest.raises(TurnEnded):
            cancel()
        assert answered(worker, turn) == "claimed"
    worker.assert_whole(turn)


@pytest.mark.parametrize("what", ["session", "agent"])
def test_one_whose_session_or_agent_is_deleted_never_runs(serve: Serve, what: str) -> None:
    front, turn = queued(serve)
    deleting = front.core.deleting
    if what == "session":
        deleting.delete_session(LOCAL_CALLER, turn.session)
    else:
        deleting.delete_agent(LOCAL_CALLER, turn.agent_id)
    worker = front.another(["never"])
    assert worker.core.recovery.reconcile(turn).status is None
    worker.settle()
    assert worker.inference.requests == []
    with pytest.raises(NotFound):
        front.reader.read(LOCAL_CALLER, turn)


def test_it_supersedes_a_waiting_turn_in_the_same_write(serve: Serve) -> None:
    server = serve([call("look", "l")])
    ref = server.session(client_tools=[client_tool()])
    waiting = server.paused(ref)
    front = server.another(is_on_lambda=True)
    turn = front.start_in_background(ref).ref
    assert server.state(waiting).status is TurnStatus.CANCELLED
    server.assert_whole(ref)
    worker = server.another(["new"])
    worker.reconcile_open()
    assert answered(worker, turn) == "new"


def test_a_run_that_was_superseded_can_no_longer_write(serve: Serve) -> None:
    thinking = Held("too late")
    old = serve([thinking])
    ref = old.session()
    running = old.start(ref)
    thinking.wait()
    front = old.another(is_on_lambda=True)
    front.clock.advance(LEASE_S)
    turn = front.start_in_background(ref).ref
    thinking.open()
    assert outline(old.drain(running)).endswith("failed:lease_lost")
    assert old.header(ref).lock.order == turn.turn_id
    old.assert_whole(ref)


@pytest.mark.parametrize("by_key", [True, False])
def test_a_repeated_request_gets_the_same_turn_before_and_after_its_run(serve: Serve, by_key: bool) -> None:
    front = serve(is_on_lambda=True)
    ref = front.session()
    by = attempt("same", key="key" if by_key else None)
    first = front.start_in_background(ref, by=by)
    again = by if by_key else by.model_copy(update={"is_retry": True})
    second = front.start_in_background(ref, by=again)
    assert (second.ref, second.is_queued) == (first.ref, True)
    worker = front.another(["once"])
    worker.reconcile_open()
    assert answered(worker, first.ref) == "once"
    third = front.start_in_background(ref, by=again)
    assert (third.ref, third.is_queued, third.state.status) == (first.ref, False, TurnStatus.COMPLETED)
    assert len(worker.states(ref)) == 1


def test_a_request_that_waits_joins_the_queued_turn(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "for both")
    by = attempt("same", key="key")
    turn = server.start_in_background(ref, by=by).ref
    joined = server.start(ref, by=by)
    thinking.open()
    assert outline(server.drain(joined)).endswith("complete")
    assert answered(server, turn) == "for both"


def test_a_follower_of_a_queued_turn_gets_every_event_once(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "followed")
    turn = server.start_in_background(ref).ref
    following = server.core.events.follow(LOCAL_CALLER, turn, 0)
    thinking.open()
    server.settle()
    subscriber = following.subscribe(lambda: None)
    numbers: list[int | None] = []
    eventually(lambda: _took_all(subscriber, numbers))
    assert numbers == list(range(1, len(numbers) + 1))


def _took_all(subscriber: Subscriber[Received], numbers: list[int | None]) -> bool:
    news = subscriber.take()
    numbers += [each.number for each in news.numbered]
    return news.is_last


def test_its_callers_keys_reach_the_run_here_and_are_refused_elsewhere(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "with a key")
    by = attempt().model_copy(update={"provider_data": ProviderData({"x_api_key": "secret"})})
    turn = server.start_in_background(ref, by=by).ref
    thinking.open()
    answered(server, turn)
    sent = server.inference.requests[-1].provider_data
    assert sent.key("x_api_key") == "secret"
    assert b"secret" not in repr(server.dump()).encode()
    front = server.another(is_on_lambda=True)
    before = front.dump()
    with pytest.raises(InvalidRequest, match="provider-data"):
        front.start_in_background(ref, by=by)
    assert front.dump() == before


def test_answers_to_calls_are_refused_in_the_background(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    new = NewTurn(messages=(ToolResponseMessage(call_id="c", content="x"),))
    with pytest.raises(InvalidRequest):
        server.turns.start_in_background(LOCAL_CALLER, ref, new, attempt())


def test_an_unreachable_supervisor_leaves_it_to_the_next_reader(serve: Serve) -> None:
    front = serve(is_on_lambda=True)
    ref = front.session()

    def fail() -> None:
        raise StoreUnavailable("no machine")

    front.supervisor.on_watch = fail
    turn = front.start_in_background(ref).ref
    front.supervisor.on_watch = lambda: None
    front.clock.advance(UNCLAIMED_AFTER.total_seconds())
    front.reader.read(LOCAL_CALLER, turn)
    worker = front.another(["found"])
    for found in list(front.supervisor.watched):
        worker.core.recovery.reconcile(found)
    assert answered(worker, turn) == "found"


def test_a_claim_that_can_not_be_stored_is_tried_again(serve: Serve) -> None:
    server, thinking, ref = busy(serve, "second try")
    turn = server.start_in_background(ref).ref

    def fail() -> None:
        raise StoreUnavailable("no disk")

    server.store.before(lambda call: call.verb == "gather" and len(call.keys) == 2, fail)
    thinking.open()
    eventually(lambda: server.core.executor.queued == 0 and server.core.executor.taken == 0)
    server.clock.advance(UNCLAIMED_AFTER.total_seconds())
    server.reconcile_due()
    assert answered(server, turn) == "second try"


def test_a_process_that_dies_while_it_runs_it_is_taken_over(serve: Serve) -> None:
    front, turn = queued(serve)
    dying = front.another([lambda request: dying.store.die()])
    dying.core.recovery.reconcile(turn)
    dying.settle()
    heir = front.another(["in the end"])
    heir.clock.advance(LEASE_S)
    heir.reconcile_open()
    assert answered(heir, turn) == "in the end"
    assert heir.state(turn).takeovers == 1


def test_an_operator_lists_and_cancels_it(serve: Serve) -> None:
    front, turn = queued(serve)
    open_turns = OpenTurns(front.core.turn_store, front.core.cancelling)
    listed = list(open_turns.list(None))
    assert [(ref, getattr(state, "status", None)) for ref, state in listed] == [(turn, TurnStatus.IN_PROGRESS)]
    assert [ref for ref, _ in open_turns.cancel(turn.tenant, None)] == [turn]
    assert front.state(turn).status is TurnStatus.CANCELLED
    front.assert_whole(turn)
