"""Only the process that holds a running turn's lease may write to it, and no earlier holder.

Covers: services/turns/leases, services/turns/recovery
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply, call
from tests.support.engine.harness import (
    LEASE_S,
    FakeClock,
    Gate,
    Harness,
    Held,
    answer,
    attempt,
    client_tool,
    completes_turn,
    discards_steps,
    drained_events,
    eventually,
    finished_steps,
    nth,
    opens_turn,
    outline,
    reads,
    renews,
    saves_step,
    serving,
    takes_over,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import StoreUnavailable, TurnRunning
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.turns.events import TurnStarted
from turnstone.domain.turns.turns import TurnStatus
from turnstone.services.streams.broadcast import Broadcasts, TurnBroadcast
from turnstone.services.turns.leases import MOST_WATCHED, RENEWALS_PER_LEASE, LeaseWatch
from turnstone.services.turns.recovery import MAX_TAKEOVERS

Serve = Callable[..., Harness]
ROLL = call("roll", "c1")
DICE = {"dice": {"roll": lambda arguments: "4"}}
SHORT_LEASE_S = 0.3
HOUR_S = 3_600.0


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def unavailable() -> None:
    raise StoreUnavailable("not now")


def running(server: Harness, thinking: Gate) -> tuple[SessionRef, TurnBroadcast]:
    """Return a turn whose run has reached `thinking`."""
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    thinking.wait()
    return ref, broadcast


def test_until_its_lease_is_over_a_turn_is_left_alone(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking], DICE)
    ref, broadcast = running(server, thinking)
    rival = server.another(tools=DICE)
    server.clock.advance(LEASE_S - 0.001)
    before = server.dump()
    rival.reconcile_open()
    with pytest.raises(TurnRunning):
        rival.start(ref)
    assert before == server.dump()
    assert rival.supervisor.watched[broadcast.ref] == server.header(ref).lock.lease_until
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")


def test_a_lease_that_is_not_renewed_ends_in_its_time_though_the_clock_was_set_back(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([thinking], DICE)
    ref, broadcast = running(server, thinking)
    rival, heir = server.another(["ok"], DICE), server.another(["taken over"], DICE)
    server.clock.set_back(HOUR_S)
    with pytest.raises(TurnRunning):
        rival.start(ref)
    heir.reconcile_open()
    assert heir.supervisor.watched == {broadcast.ref: server.clock.now() + timedelta(seconds=LEASE_S)}
    server.clock.advance(LEASE_S - 0.001)
    with pytest.raises(TurnRunning):
        rival.start(ref)
    server.clock.advance(0.001)
    assert outline(rival.whole_turn(ref)).endswith("complete")
    turns = [state.turn_id for state in server.states(ref)]
    assert (len(turns), turns) == (2, sorted(turns))
    heir.reconcile_due()
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("failed:lease_lost")
    server.assert_whole(ref)


def test_a_lease_that_is_renewed_stays_though_the_clock_was_set_back(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking], DICE)
    ref, broadcast = running(server, thinking)
    rival = server.another(tools=DICE)
    for _ in range(4):
        server.clock.set_back(HOUR_S)
        for _ in range(RENEWALS_PER_LEASE):
            with pytest.raises(TurnRunning):
                rival.start(ref)
            rival.reconcile_open()
            server.clock.advance(LEASE_S / RENEWALS_PER_LEASE)
        fence = server.header(ref).lock.fence
        server.core.turn_store.renew(broadcast.ref, fence, server.clock.now() + timedelta(seconds=LEASE_S + HOUR_S))
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")
    server.assert_whole(ref)


def test_a_turn_is_watched_for_no_longer_than_leases_last_though_the_clock_was_set_back(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking], DICE)
    ref, by = server.session(), attempt("a request", key="k")
    broadcast = server.start(ref, by=by)
    thinking.wait()
    reader = server.another(tools=DICE)
    server.clock.set_back(HOUR_S)
    joined = reader.start(ref, by=by)
    assert reader.supervisor.watched == {broadcast.ref: server.clock.now() + timedelta(seconds=LEASE_S)}
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")
    assert outline(reader.drain(joined)).endswith("complete")


def test_only_so_many_leases_are_watched() -> None:
    clock = FakeClock()
    watch = LeaseWatch(clock, timedelta(seconds=LEASE_S))
    lock = SessionLock().taken("t", clock.now() + timedelta(seconds=HOUR_S))
    refs = [TurnRef(tenant="t", agent_id="a", session_id=str(n), turn_id="t") for n in range(MOST_WATCHED + 1)]
    for ref in refs:
        watch.seen(ref, lock, clock.now())
    clock.advance(LEASE_S)
    over = [ref for ref in (refs[-1], refs[1]) if not watch.seen(ref, lock, clock.now()).is_live(clock.now())]
    assert over == [refs[-1], refs[1]]
    assert watch.seen(refs[0], lock, clock.now()).is_live(clock.now())
    assert not watch.seen(refs[2], lock.model_copy(update={"fence": 9}), clock.now()).is_abandoned(clock.now())


@pytest.mark.parametrize("late", ["late answer", ROLL], ids=["at the close", "at a step"])
def test_a_writer_whose_turn_was_repaired_by_a_new_one_writes_nothing(serve: Serve, late: Scripted) -> None:
    thinking = Held(late)
    server = serve([thinking, "later still"], DICE)
    ref, broadcast = running(server, thinking)
    rival = server.another(["hello from the second"], DICE)
    server.clock.advance(LEASE_S)
    assert outline(rival.whole_turn(ref)) == "start S:infer P C:infer complete"
    before = server.dump()
    thinking.open()
    assert outline(server.drain(broadcast)) == "start S:infer P failed:lease_lost"
    assert before == server.dump()
    assert [state.status for state in server.states(ref)] == [TurnStatus.FAILED, TurnStatus.COMPLETED]
    server.assert_whole(ref)


def test_the_repaired_turn_keeps_its_finished_steps(serve: Serve) -> None:
    thinking = Held("late")
    server = serve([ROLL, thinking], DICE)
    ref, broadcast = running(server, thinking)
    server.clock.advance(LEASE_S)
    rival = server.another(["ok"], DICE)
    rival.whole_turn(ref)
    thinking.open()
    finished = finished_steps(server.drain(broadcast))
    assert (len(finished), finished) == (2, server.state(broadcast.ref).turn.steps)
    server.assert_whole(ref)


@pytest.mark.parametrize("is_stored", [False, True], ids=["before its step is stored", "after"])
def test_a_turn_is_taken_over_from_its_last_stored_step(serve: Serve, is_stored: bool) -> None:
    server = serve([ROLL], DICE)
    ref = server.session(toolgroups=["dice"])
    dies = server.store.after if is_stored else server.store.before
    dies(nth(2, saves_step), server.store.die)
    broadcast = server.start(ref, "roll")
    finished = finished_steps(server.drain(broadcast))
    second = server.another(["You rolled 4."], DICE)
    second.reconcile_open()
    assert not second.inference.requests
    server.clock.advance(LEASE_S)
    second.reconcile_due()
    second.settle()
    state = second.state(broadcast.ref)
    assert (state.status, state.takeovers) == (TurnStatus.COMPLETED, 1)
    assert [step.step_type for step in state.turn.steps] == ["inference", "tool_execution", "inference"]
    assert finished == state.turn.steps[: len(finished)]
    runs = [*server.tools.invocations, *second.tools.invocations]
    assert len(runs) == (1 if is_stored else 2)
    assert len({invocation.idempotency_key for invocation in runs}) == 1
    second.assert_whole(ref)


def test_a_turn_taken_over_has_a_new_fence_that_shuts_out_the_old_writer(serve: Serve) -> None:
    thinking, other_thinking = Held("late"), Held("in time")
    server = serve([ROLL, thinking], DICE)
    ref, broadcast = running(server, thinking)
    fence = server.header(ref).lock.fence
    server.clock.advance(LEASE_S)
    second = server.another([other_thinking], DICE)
    second.reconcile_open()
    other_thinking.wait()
    assert server.header(ref).lock.fence == fence + 1
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("S:infer P failed:lease_lost")
    assert server.header(ref).lock.state is LockState.RUNNING
    other_thinking.open()
    second.settle()
    state = server.state(broadcast.ref)
    assert (state.turn.output_message.content, len(state.turn.steps)) == ("in time", 3)
    server.assert_whole(ref)


def test_a_writer_that_lost_its_lease_keeps_the_steps_of_the_continued_turn(serve: Serve) -> None:
    thinking, other_thinking = Held("late"), Held("never")
    server = serve([ROLL, ROLL, thinking], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    thinking.wait()
    server.clock.advance(LEASE_S)
    second = server.another([ROLL, other_thinking], DICE)
    second.reconcile_open()
    other_thinking.wait()
    assert len(second.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps) == 6
    thinking.open()
    server.drain(broadcast)
    shown = second.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps
    second.store.is_dead = True
    other_thinking.open()
    second.settle()
    assert [step.step_type for step in shown] == ["inference", "tool_execution"] * 3
    server.clock.advance(LEASE_S)
    third = server.another(["done"], DICE)
    third.reconcile_open()
    third.settle()
    assert third.state(broadcast.ref).turn.steps[:6] == shown
    assert not third.tools.invocations
    third.assert_whole(ref)


@pytest.mark.parametrize("is_dead", [False, True], ids=["store unavailable", "answer lost"])
def test_steps_are_kept_while_the_close_could_not_be_stored(serve: Serve, is_dead: bool) -> None:
    thinking = Held("You rolled 4.")
    server = serve([ROLL, thinking, "You rolled 4, I said."], DICE)
    ref, broadcast = running(server, thinking)
    server.store.before(lambda call: bool(call.operations), unavailable)
    thinking.open()
    finished = finished_steps(server.drain(broadcast))
    assert finished == server.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps
    server.clock.advance(LEASE_S)
    if is_dead:
        server = server.another(["You rolled 4, I said."], DICE)
    server.reconcile_open()
    server.settle()
    state = server.state(broadcast.ref)
    assert (state.status, state.turn.steps[:2]) == (TurnStatus.COMPLETED, finished)
    assert len(server.tools.invocations) == (0 if is_dead else 1)
    server.assert_whole(ref)


def test_a_turn_whose_close_could_not_be_stored_is_left_to_the_supervisor(serve: Serve) -> None:
    server = serve([ROLL, "You rolled 4.", "You rolled 4, I said."], DICE)
    ref = server.session(toolgroups=["dice"])
    server.store.before(completes_turn, unavailable)
    broadcast = server.start(ref)
    assert outline(server.drain(broadcast)).endswith("failed:store_unavailable")
    assert server.state(broadcast.ref).status is TurnStatus.IN_PROGRESS
    server.reconcile_after_leases()
    state = server.state(broadcast.ref)
    assert (state.status, len(server.tools.invocations)) == (TurnStatus.COMPLETED, 1)
    server.assert_whole(ref)


def test_a_paused_turns_clean_up_leaves_the_steps_of_its_resume(serve: Serve) -> None:
    """The client answers before the previous run has cleaned up."""
    tidying, thinking = Gate(), Held("done")
    client_call = call("look", "c2")
    server = serve([ScriptedReply(calls=(ROLL, client_call)), ROLL, thinking], DICE)
    reader = server.another()
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    server.store.before(lambda call: discards_steps(call) or reads("step:")(call), tidying.pass_through)
    broadcast = server.start(ref)
    assert outline(drained_events(broadcast)).endswith("awaiting")
    resumed = server.resume(broadcast.ref, answer("c2"))
    thinking.wait()
    assert len(reader.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps) == 5
    tidying.open()
    eventually(lambda: len(server.core.executor._running) == 1)
    assert len(reader.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps) == 5
    thinking.open()
    assert len(turn_in(server.drain(resumed)).steps) == 6
    server.assert_whole(ref)


def late_step(server: Harness, tool: Held, broadcast: TurnBroadcast) -> Callable[[], None]:
    """Return an act that lets a process without a lease store one more step before the fence is written."""

    def act() -> None:
        tool.open()
        eventually(lambda: "C:tool" in outline(broadcast.events))

    return act


def test_a_step_published_while_the_turn_is_being_repaired_is_kept(serve: Serve) -> None:
    tool, thinking = Held("4"), Held("late")
    server = serve([ROLL, thinking], {"dice": {"roll": tool}})
    ref, broadcast = running(server, tool)
    server.clock.advance(LEASE_S)
    second = server.another(["ok"], DICE)
    second.store.before(opens_turn, late_step(server, tool, broadcast))
    second.whole_turn(ref)
    thinking.open()
    finished = finished_steps(server.drain(broadcast))
    assert finished == server.state(broadcast.ref).turn.steps[: len(finished)]
    server.assert_whole(ref)


def test_a_step_published_while_the_turn_is_being_taken_over_is_kept(serve: Serve) -> None:
    tool, thinking = Held("4"), Held("late")
    server = serve([ROLL, thinking], {"dice": {"roll": tool}})
    ref, broadcast = running(server, tool)
    server.clock.advance(LEASE_S)
    second = server.another(["You rolled 4."] * 3, DICE)
    second.store.before(takes_over, late_step(server, tool, broadcast))
    second.reconcile_open()
    second.settle()
    thinking.open()
    finished = finished_steps(server.drain(broadcast))
    second.clock.advance(1)
    second.reconcile_due()
    second.settle()
    state = server.state(broadcast.ref)
    assert (state.status, state.turn.steps[: len(finished)]) == (TurnStatus.COMPLETED, finished)
    server.assert_whole(ref)


def test_a_failed_renewal_stops_the_engine_at_its_next_event(serve: Serve) -> None:
    thinking = Held(ScriptedReply(texts=("one", "two", "three")))
    server = serve([thinking], DICE, lease_seconds=SHORT_LEASE_S)
    rival = server.another(["ok"], DICE)

    def lose_the_lease() -> None:
        server.clock.advance(LEASE_S)
        rival.whole_turn(ref)

    ref = server.session(toolgroups=["dice"])
    server.store.before(renews, lose_the_lease)
    broadcast = server.start(ref)
    thinking.wait()
    eventually(lambda: all(lease.is_lost for lease in server.core.leases._held))
    thinking.open()
    assert outline(server.drain(broadcast)) == "start S:infer failed:lease_lost"
    server.assert_whole(ref)


def test_renewals_prolong_the_lease_and_do_not_stand_in_the_way_of_the_close(serve: Serve) -> None:
    thinking, renewed = Held(), Event()
    server = serve([ROLL, thinking], DICE, lease_seconds=SHORT_LEASE_S)
    renewals: list[int] = []

    def count() -> None:
        renewals.append(1)
        if len(renewals) == 4:
            renewed.set()

    server.store.after(renews, count, times=100)
    ref, broadcast = running(server, thinking)
    opened = server.header(ref)
    server.clock.advance(10 * SHORT_LEASE_S)
    assert renewed.wait(5)
    held = server.header(ref)
    assert (held.rev, held.lock.fence) == (opened.rev, opened.lock.fence)
    assert held.lock.is_live(server.clock.now())
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")
    server.assert_whole(ref)
    count_at_end = len([call for call in server.store.calls if renews(call)])
    assert not server.core.leases._held
    assert count_at_end >= 4


def test_a_renewal_that_comes_too_late_changes_nothing(serve: Serve) -> None:
    """The keeper checks a lease at the moment its turn ends."""
    thinking = Held()
    server = serve([thinking, "ok"], DICE, lease_seconds=SHORT_LEASE_S)
    renewing = Gate()
    server.store.before(renews, renewing.pass_through)
    ref, broadcast = running(server, thinking)
    renewing.wait()
    thinking.open()
    server.drain(broadcast)
    before = server.dump()
    renewing.open()
    server.core.leases.close()
    assert before == server.dump()
    server.assert_whole(ref)


def test_a_store_that_is_unavailable_for_some_renewals_is_survived(serve: Serve) -> None:
    thinking, renewed = Held(), Event()
    server = serve([thinking], DICE, lease_seconds=SHORT_LEASE_S)
    server.store.before(renews, unavailable, times=2)
    server.store.after(renews, renewed.set)
    ref, broadcast = running(server, thinking)
    assert renewed.wait(5)
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")
    server.assert_whole(ref)


def test_after_too_many_takeovers_the_turn_is_failed(serve: Serve) -> None:
    def dying(server_at: list[Harness]) -> Scripted:
        return lambda request: server_at[0].store.die()

    here: list[Harness] = []
    server = serve([dying(here)], DICE)
    here.append(server)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    server.drain(broadcast)
    for number in range(1, MAX_TAKEOVERS + 1):
        server.clock.advance(LEASE_S)
        at: list[Harness] = []
        heir = server.another([dying(at)], DICE)
        at.append(heir)
        heir.reconcile_open()
        heir.settle()
        assert server.state(broadcast.ref).takeovers == number
    server.clock.advance(LEASE_S)
    last = server.another(["ok"], DICE)
    last.reconcile_open()
    state = server.state(broadcast.ref)
    assert (state.status, len(last.inference.requests)) == (TurnStatus.FAILED, 0)
    assert outline(last.whole_turn(ref)).endswith("complete")
    last.assert_whole(ref)


def stood_still(server: Harness, broadcast: TurnBroadcast) -> None:
    """Let the lease expire, and a reader and the supervisor find the turn before the keeper wakes up."""
    server.clock.advance(LEASE_S)
    server.reader.read(LOCAL_CALLER, broadcast.ref)
    server.reconcile_due()


def test_a_process_that_stood_still_continues_its_run(serve: Serve) -> None:
    thinking = Held("one")
    server = serve([thinking, "two"], DICE)
    ref, broadcast = running(server, thinking)
    stood_still(server, broadcast)
    assert server.header(ref).lock.is_live(server.clock.now())
    thinking.open()
    assert outline(server.drain(broadcast)) == "start S:infer P C:infer complete"
    state = server.state(broadcast.ref)
    assert (len(server.inference.requests), state.takeovers, len(state.turn.steps)) == (1, 0, 1)
    server.assert_whole(ref)


def test_a_caller_that_joins_a_turn_of_a_process_that_stood_still_receives_its_end(serve: Serve) -> None:
    thinking = Held("one")
    server = serve([thinking, "two"], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref, by=attempt("request"))
    thinking.wait()
    stood_still(server, broadcast)
    joined = server.start(ref, by=attempt("request", is_retry=True))
    thinking.open()
    assert server.drain(broadcast) == server.drain(joined)
    server.assert_whole(ref)


def test_when_the_keeper_closes_held_leases_expire(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking], DICE, lease_seconds=SHORT_LEASE_S)
    ref, broadcast = running(server, thinking)
    server.core.leases.close()
    renewals = len([call for call in server.store.calls if renews(call)])
    until = server.header(ref).lock.lease_until
    thinking.open()
    server.drain(broadcast)
    assert until is not None
    assert renewals == len([call for call in server.store.calls if renews(call)])


def test_a_turn_that_lives_here_is_not_declared_dead_by_a_clock_that_jumped(serve: Serve) -> None:
    """After a suspend its lease is over, but the next request comes before the keeper."""
    thinking = Held("done")
    server = serve([thinking], DICE)
    ref, broadcast = running(server, thinking)
    server.clock.advance(LEASE_S)
    with pytest.raises(TurnRunning):
        server.start(ref)
    thinking.open()
    assert outline(server.drain(broadcast)).endswith("complete")
    server.assert_whole(ref)


def test_recovery_does_not_interrupt_a_run_that_has_published_nothing_yet(serve: Serve) -> None:
    server = serve([])
    ref = server.session()
    broadcasts = Broadcasts()
    turn = TurnRef(tenant=ref.tenant, agent_id=ref.agent_id, session_id=ref.session_id, turn_id="t")
    run = broadcasts.begin(turn)
    broadcasts.notify_waiting(turn, TurnStarted(turn_id="t"))
    assert (run.events, run.is_over, broadcasts.find(turn)) == ([], False, run)
