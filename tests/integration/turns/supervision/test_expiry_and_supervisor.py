"""Turns without a live request: their client does not return, or their process died.

Covers: adapters/machine/local_supervisor, services/turns/supervision, services/turns/recovery
"""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    FakeClock,
    Gate,
    Harness,
    Held,
    ManualSupervisor,
    answer,
    attempt,
    client_tool,
    contents,
    drained_events,
    eventually,
    outline,
    puts_turn,
    reads,
    resumes_turn,
    serving,
    takes_over,
    together,
    turn_in,
)
from turnstone.adapters.machine import local_supervisor
from turnstone.adapters.machine.local_supervisor import LocalSupervisor
from turnstone.adapters.machine.system import SystemClock
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound, StoreUnavailable, TurnNotAwaiting
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.turns.events import TurnCompleted, TurnFailed
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Delete
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.threads.slots import QueueLimits, Waiter
from turnstone.store.layout.keys import agent_key

Serve = Callable[..., Harness]
CLIENT_CALL = call("look", "c1")
ROLL = call("roll", "c2")
DICE = {"dice": {"roll": lambda arguments: "4"}}
expires_turn = puts_turn(TurnStatus.EXPIRED)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


@pytest.fixture
def supervisors() -> Iterator[list[LocalSupervisor]]:
    """Supervisors in this list are closed afterwards, which also shows that close() joins their threads."""
    opened: list[LocalSupervisor] = []
    yield opened
    for supervisor in opened:
        supervisor.close()
    assert "supervisor" not in {thread.name for thread in threading.enumerate()}


def waiting(serve: Serve, *more: object) -> tuple[Harness, SessionRef, TurnRef]:
    server = serve([CLIENT_CALL, *more])
    ref = server.session(client_tools=[client_tool()])
    return server, ref, server.paused(ref)


def unavailable() -> None:
    raise StoreUnavailable("not now")


def assert_expired(server: Harness, turn: TurnRef) -> None:
    state = server.state(turn)
    assert (state.status, state.pending_calls, len(state.turn.steps)) == (TurnStatus.EXPIRED, (), 1)
    assert server.header(turn).lock.state is LockState.IDLE
    server.assert_whole(turn)


def test_before_its_deadline_a_waiting_turn_is_left_alone(serve: Serve) -> None:
    server, _, turn = waiting(serve)
    server.clock.advance(AWAIT_S - 0.001)
    before = server.dump()
    server.reconcile_open()
    assert before == server.dump()
    assert server.supervisor.watched[turn] == server.header(turn).lock.await_until


def test_a_turn_whose_deadline_is_over_expires(serve: Serve) -> None:
    server, ref, turn = waiting(serve, "hello")
    server.clock.advance(AWAIT_S)
    server.reconcile_due()
    assert_expired(server, turn)
    assert not server.supervisor.watched
    assert outline(server.whole_turn(ref, "hi")).endswith("complete")
    assert "Not executed: no answer came before the deadline." in contents(server.inference.requests[-1].messages)


def test_reading_an_overdue_turn_reconciles_it(serve: Serve) -> None:
    server, ref, turn = waiting(serve)
    for read in (
        lambda: server.reader.read(LOCAL_CALLER, turn).turn,
        lambda: server.core.sessions.read(LOCAL_CALLER, ref, None),
    ):
        server.supervisor.watched.clear()
        read()
        assert not server.supervisor.watched
    server.clock.advance(AWAIT_S)
    server.reader.read(LOCAL_CALLER, turn)
    assert server.supervisor.watched == {turn: server.clock.now()}
    server.supervisor.watched.clear()
    server.core.sessions.read(LOCAL_CALLER, ref, None)
    assert server.supervisor.watched == {turn: server.clock.now()}
    server.reconcile_due()
    assert_expired(server, turn)


def test_a_late_resume_is_refused_and_the_turn_is_stored_as_expired(serve: Serve) -> None:
    server, _, turn = waiting(serve)
    server.clock.advance(AWAIT_S)
    for _ in range(2):
        with pytest.raises(TurnNotAwaiting) as refused:
            server.resume(turn, answer("c1"))
        assert refused.value.status == "expired"
        assert_expired(server, turn)


def test_a_new_turn_after_the_deadline_finds_the_old_one_expired_not_cancelled(serve: Serve) -> None:
    server, ref, turn = waiting(serve, "hello")
    server.clock.advance(AWAIT_S)
    assert outline(server.whole_turn(ref)).endswith("complete")
    assert server.state(turn).status is TurnStatus.EXPIRED
    server.assert_whole(ref)


def test_a_resume_whose_turn_expires_before_its_write_is_refused(serve: Serve) -> None:
    server, ref, turn = waiting(serve, "done")
    other = server.another()

    def expire() -> None:
        server.clock.advance(AWAIT_S)
        other.reconcile_open()

    server.store.before(resumes_turn, expire)
    with pytest.raises(TurnNotAwaiting) as refused:
        server.resume(turn, answer("c1"))
    assert refused.value.status == "expired"
    assert_expired(server, turn)
    server.assert_whole(ref)


def test_a_turn_that_is_resumed_before_its_expiry_is_written_continues(serve: Serve) -> None:
    """The process that resumes it has a clock that is a little behind."""
    thinking = Held("done")
    server, ref, turn = waiting(serve, thinking)
    other = server.another()
    in_time = server.clock.now()
    resumed: list[TurnBroadcast] = []

    def resume() -> None:
        server.clock.at = in_time
        resumed.append(server.resume(turn, answer("c1")))

    other.store.before(expires_turn, resume)
    server.clock.advance(AWAIT_S)
    other.reconcile_open()
    assert server.state(turn).status is TurnStatus.IN_PROGRESS
    thinking.open()
    assert outline(server.drain(resumed[0])).endswith("complete")
    server.clock.advance(1)
    other.reconcile_due()
    assert server.state(turn).status is TurnStatus.COMPLETED
    server.assert_whole(ref)


def test_of_expiry_and_resumes_at_once_one_wins(serve: Serve) -> None:
    rounds = 8
    server = serve([CLIENT_CALL] * rounds)
    ref = server.session(client_tools=[client_tool()])
    for _ in range(rounds):
        turn = server.paused(ref)
        server.clock.advance(AWAIT_S)
        results = together(server.reconcile_open, *[lambda turn=turn: server.resume(turn, answer("c1"))] * 3)
        assert {getattr(result, "status", None) for result in results[1:]} == {"expired"}
        assert server.state(turn).status is TurnStatus.EXPIRED
        server.assert_whole(ref)


def test_a_resume_during_the_pauses_last_act_receives_its_own_run(serve: Serve) -> None:
    """A reader finds the turn waiting and answers while the run before still notifies the supervisor."""
    watching, thinking = Gate(), Held("A door.")
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    server.supervisor.on_watch = watching.pass_through
    broadcast = server.start(ref)
    watching.wait()
    server.supervisor.on_watch = lambda: None
    resumed = server.resume(broadcast.ref, answer("c1"))
    thinking.wait()
    watching.open()
    assert outline(drained_events(broadcast)) == "start S:infer P C:infer awaiting"
    thinking.open()
    assert outline(server.drain(resumed)) == "C:tool S:infer P C:infer complete"
    server.assert_whole(ref)


def test_a_pause_whose_supervisor_did_not_start_is_still_a_pause(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "done"])
    ref = server.session(client_tools=[client_tool()])
    server.supervisor.on_watch = unavailable
    broadcast = server.start(ref, by=attempt("request"))
    server.drain(broadcast)
    server.supervisor.on_watch = lambda: None
    assert server.state(broadcast.ref).status is TurnStatus.AWAITING_INPUT
    joined = server.start(ref, by=attempt("request", is_retry=True))
    assert outline(server.drain(joined)) == "start S:infer P C:infer awaiting"
    assert outline(server.drain(server.resume(broadcast.ref, answer("c1")))).endswith("complete")


@pytest.mark.parametrize("is_backwards", [False, True])
def test_a_turn_that_ends_while_it_is_read_is_read_again(serve: Serve, is_backwards: bool) -> None:
    """Otherwise its subscribers here would never receive its end."""
    thinking = Held("done")
    server = serve([thinking])
    ref = server.session()
    running = server.start(ref, by=attempt("request"))
    thinking.wait()
    reader = server.another()
    joined = reader.start(ref, by=attempt("request", is_retry=True))
    reader.store.is_backwards = is_backwards
    reader.clock.advance(LEASE_S - 1)
    reader.supervisor.schedule_check(running.ref, reader.clock.now())

    def end() -> None:
        thinking.open()
        server.drain(running)

    reader.store.after(reads("turn:" if is_backwards else "ctx:"), end)
    reader.reconcile_due()
    reader.clock.advance(LEASE_S)
    reader.reconcile_due()
    assert outline(drained_events(joined)) == "start S:infer P C:infer complete"


def test_a_turn_that_is_resumed_while_it_is_read_is_read_again(serve: Serve) -> None:
    """Otherwise its subscribers here would receive only that it waits."""
    calling, thinking = Held(CLIENT_CALL), Held("done")
    server = serve([calling, thinking])
    ref = server.session(client_tools=[client_tool()])
    running = server.start(ref, by=attempt("request"))
    calling.wait()
    reader = server.another()
    joined = reader.start(ref, by=attempt("request", is_retry=True))
    calling.open()
    server.drain(running)
    resumed: list[TurnBroadcast] = []

    def resume() -> None:
        resumed.append(server.resume(running.ref, answer("c1")))
        thinking.wait()

    reader.store.after(reads("ctx:"), resume)
    reader.supervisor.schedule_check(running.ref, reader.clock.now())
    reader.reconcile_due()
    assert not joined.is_over
    thinking.open()
    server.drain(resumed[0])
    reader.clock.advance(1)
    reader.reconcile_due()
    assert outline(drained_events(joined)).endswith("C:tool S:infer P C:infer complete")


def test_a_caller_that_joins_a_turn_of_another_process_receives_its_continuation_here(serve: Serve) -> None:
    server = serve([ROLL, lambda request: server.store.die()], DICE)
    ref = server.session(toolgroups=["dice"])
    server.drain(server.start(ref, by=attempt("request")))
    second = server.another(["You rolled 4."], DICE)
    joined = second.start(ref, by=attempt("request", is_retry=True))
    second.reconcile_due()
    assert (joined.events, len(second.inference.requests)) == ([], 0)
    second.clock.advance(LEASE_S)
    second.reconcile_due()
    assert outline(second.drain(joined)) == "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"
    second.assert_whole(ref)


@pytest.mark.parametrize("ending", ["complete", "awaiting", "failed:ended"])
def test_a_caller_that_joins_a_turn_of_another_process_receives_its_end_there(serve: Serve, ending: str) -> None:
    thinking = Held(CLIENT_CALL if ending == "awaiting" else "done")
    server = serve([thinking])
    ref = server.session(client_tools=[client_tool()])
    broadcast = server.start(ref, by=attempt("request"))
    thinking.wait()
    second = server.another(["anew"])
    joined = second.start(ref, by=attempt("request", is_retry=True))
    if ending == "failed:ended":
        server.clock.advance(LEASE_S)
        second.whole_turn(ref)
    thinking.open()
    server.drain(broadcast)
    server.clock.advance(LEASE_S)
    second.reconcile_due()
    assert outline(second.drain(joined)).endswith(ending)
    server.assert_whole(ref)


def test_a_subscriber_of_a_removed_turn_receives_that_it_is_gone(serve: Serve) -> None:
    second = serve()
    ref = second.session()
    gone = ref.turn("019b76da-a800-7000-8000-000000000000")
    broadcast = TurnBroadcast(gone)
    second.core.recovery._deps.broadcasts._by_turn[gone] = broadcast
    assert second.core.recovery.reconcile(gone).check_at is None
    assert outline(drained_events(broadcast)) == "failed:gone"


def test_a_turn_whose_agent_is_gone_does_not_stop_the_supervisor(serve: Serve) -> None:
    server, ref, turn = waiting(serve)
    server.records.write([Delete(agent_key(ref.tenant, ref.agent_id))])
    server.clock.advance(AWAIT_S)
    listening = server.core.recovery._deps.broadcasts.expect(turn)
    try:
        server.reconcile_open()
    except NotFound as error:
        pytest.fail(f"the supervisor's thread dies of {error}, and attends to no other turn any more")
    assert server.state(turn).status in (TurnStatus.EXPIRED, TurnStatus.AWAITING_INPUT)
    (failed,) = drained_events(listening)
    assert isinstance(failed, TurnFailed)
    assert failed.failure.kind == "gone"
    assert ref.session_id in failed.failure.message


def test_over_capacity_a_takeover_is_tried_again(serve: Serve) -> None:
    dead = serve([lambda request: dead.store.die()])
    ref = dead.session()
    broadcast = dead.start(ref)
    dead.drain(broadcast)
    thinking = Held()
    second = dead.another([thinking, "taken over"], max_running_turns=1)
    running = second.start(second.session())
    thinking.wait()
    second.clock.advance(LEASE_S)
    second.reconcile_open()
    assert second.state(broadcast.ref).takeovers == 0
    thinking.open()
    second.drain(running)
    second.clock.advance(1)
    second.reconcile_due()
    second.settle()
    assert second.state(broadcast.ref).turn.output_message.content == "taken over"


def test_a_takeover_gets_a_slot_under_an_endless_queue_of_requests(serve: Serve) -> None:
    dead = serve([lambda request: dead.store.die()])
    left = dead.start(dead.session())
    dead.drain(left)
    thinking = Held()
    second = dead.another([thinking, "taken over"], max_running_turns=1)
    second.core.executor._slots.limits = QueueLimits(30, requests=9, requests_of_tenant=9)
    running = second.start(second.session())
    thinking.wait()
    served: list[Waiter] = []
    for _ in range(9):
        second.core.executor.queue(left.ref.tenant, served.append, size_bytes=1)
    second.clock.advance(LEASE_S)
    second.reconcile_open()
    second.reconcile_open()
    thinking.open()
    assert isinstance(list(running.wait())[-1], TurnCompleted)
    eventually(lambda: len(served) == 1)
    assert second.state(left.ref).turn.output_message.content == "taken over"
    for _ in range(9):
        second.core.executor.leave(served[-1])
    second.settle()


def test_two_processes_at_once_take_a_turn_over_once(serve: Serve) -> None:
    dead = serve([lambda request: dead.store.die()])
    ref = dead.session()
    broadcast = dead.start(ref)
    dead.drain(broadcast)
    heirs = [dead.another(["one answer"]) for _ in range(2)]
    dead.clock.advance(LEASE_S)
    heirs[0].store.before(takes_over, heirs[1].reconcile_open)
    heirs[0].reconcile_open()
    for heir in heirs:
        heir.settle()
    assert sum(len(heir.inference.requests) for heir in heirs) == 1
    assert (dead.state(broadcast.ref).takeovers, len(dead.state(broadcast.ref).turn.steps)) == (1, 1)
    dead.assert_whole(ref)


def waits_until(at: datetime) -> SessionLock:
    return SessionLock(state=LockState.AWAITING, order="t", await_until=at)


def ref_of(name: str) -> TurnRef:
    return TurnRef(tenant="local", agent_id="a", session_id="s", turn_id=name)


def test_the_local_supervisor_reconciles_due_turns_in_order_of_time(supervisors: list[LocalSupervisor]) -> None:
    clock = SystemClock()
    supervisor = LocalSupervisor(clock)
    supervisors.append(supervisor)
    reconciled: list[tuple[str, datetime]] = []
    done = threading.Event()

    def reconcile(turn: TurnRef) -> datetime | None:
        reconciled.append((turn.turn_id, clock.now()))
        if turn.turn_id == "last":
            done.set()
        if turn.turn_id == "again" and len(reconciled) < 4:
            return clock.now() + timedelta(milliseconds=20)
        return None

    begun = clock.now()
    due = {"last": 0.9, "second": 0.6, "again": 0.3}  # as long as a busy machine may stand still before the start
    for name, seconds in due.items():
        supervisor.watch(ref_of(name), waits_until(begun + timedelta(seconds=seconds)))
    supervisor.start(reconcile, [ref_of("first")])
    assert done.wait(5)
    names = [name for name, _ in reconciled]
    assert (names[0], names[-1]) == ("first", "last")
    assert names.count("again") >= 2
    assert names.count("second") == 1
    assert all(at >= begun + timedelta(seconds=due.get(name, 0)) for name, at in reconciled)


def test_watching_again_only_brings_the_time_forward(supervisors: list[LocalSupervisor]) -> None:
    clock = SystemClock()
    supervisor = LocalSupervisor(clock)
    supervisors.append(supervisor)
    reconciled: list[datetime] = []
    seen = threading.Event()

    def reconcile(turn: TurnRef) -> None:
        reconciled.append(clock.now())
        seen.set()

    supervisor.start(reconcile, [])
    begun = clock.now()
    for seconds in (0.15, 0.05, 0.2, 90):
        supervisor.watch(ref_of("t"), waits_until(begun + timedelta(seconds=seconds)))
    assert seen.wait(5)
    seen.clear()
    assert reconciled[0] >= begun + timedelta(seconds=0.05)
    assert not seen.wait(0.2), "the later times are forgotten"


class SetClock(SystemClock):
    """The machine's clock, shifted by an offset."""

    off = timedelta()

    def now(self) -> datetime:
        return super().now() + self.off


def test_the_local_supervisor_reconciles_in_time_though_the_clock_was_set_back(
    supervisors: list[LocalSupervisor],
) -> None:
    clock, reconciled = SetClock(), threading.Event()
    supervisor = LocalSupervisor(clock)
    supervisors.append(supervisor)
    supervisor.watch(ref_of("t"), waits_until(clock.now() + timedelta(milliseconds=50)))
    clock.off = -timedelta(hours=1)
    supervisor.start(lambda turn: reconciled.set(), [])
    assert reconciled.wait(5)


def test_the_local_supervisor_tries_again_when_the_store_was_unavailable(
    supervisors: list[LocalSupervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_supervisor, "RETRY_AFTER", timedelta(milliseconds=10))
    supervisor = LocalSupervisor(SystemClock())
    supervisors.append(supervisor)
    tries: list[TurnRef] = []
    succeeded = threading.Event()

    def reconcile(turn: TurnRef) -> None:
        tries.append(turn)
        if len(tries) < 3:
            raise StoreUnavailable("not now")
        succeeded.set()

    supervisor.start(reconcile, [ref_of("t")])
    assert succeeded.wait(5)
    assert tries == [ref_of("t")] * 3


def test_the_local_supervisor_closes_while_it_waits_and_before_it_started() -> None:
    supervisor = LocalSupervisor(SystemClock())
    supervisor.close()
    waiting_long = LocalSupervisor(SystemClock())
    waiting_long.watch(ref_of("t"), waits_until(SystemClock().now() + timedelta(hours=1)))
    waiting_long.start(lambda turn: None, [])
    waiting_long.close()
    assert "supervisor" not in {thread.name for thread in threading.enumerate()}


def test_open_turns_are_reconciled_after_a_restart(serve: Serve, supervisors: list[LocalSupervisor]) -> None:
    server, ref, overdue = waiting(serve)
    server.store.is_dead = True
    server.clock.advance(AWAIT_S)
    heir = server.another(["taken over"])
    dead = server.another([lambda request: dead.store.die()])
    other = heir.session()
    abandoned = dead.start(other).ref
    dead.settle()
    server.clock.advance(LEASE_S)
    supervisor = LocalSupervisor(server.clock)
    supervisors.append(supervisor)
    supervisor.start(heir.reconcile_turn, heir.core.turn_store.open_turns())
    eventually(lambda: heir.state(overdue).status.is_terminal and heir.state(abandoned).status.is_terminal)
    heir.settle()
    assert heir.state(overdue).status is TurnStatus.EXPIRED
    assert heir.state(abandoned).turn.output_message.content == "taken over"
    for session in (ref, other):
        heir.assert_whole(session)


def test_the_manual_supervisor_is_like_the_local_one() -> None:
    clock = FakeClock()
    supervisor = ManualSupervisor(clock)
    reconciled: list[TurnRef] = []
    supervisor.watch(ref_of("t"), waits_until(clock.now() + timedelta(seconds=2)))
    supervisor.watch(ref_of("t"), waits_until(clock.now() + timedelta(seconds=1)))
    supervisor.watch(ref_of("t"), waits_until(clock.now() + timedelta(seconds=3)))
    supervisor.reconcile_due(lambda turn: reconciled.append(turn))
    assert reconciled == []
    clock.advance(1)
    supervisor.reconcile_due(lambda turn: reconciled.append(turn))
    supervisor.reconcile_due(lambda turn: reconciled.append(turn))
    assert reconciled == [ref_of("t")]


def test_a_turn_resumed_after_a_restart_continues(serve: Serve) -> None:
    server, ref, turn = waiting(serve)
    server.store.is_dead = True
    heir = server.another(["A door."])
    heir.reconcile_open()
    assert heir.supervisor.watched[turn] == heir.header(ref).lock.await_until
    events = heir.drain(heir.resume(turn, answer("c1")))
    assert turn_in(events).output_message.content == "A door."
    heir.assert_whole(ref)
