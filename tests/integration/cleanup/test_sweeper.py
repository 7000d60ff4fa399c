"""The sweeper finds turns of killed processes that no supervisor watches. On either store.

Covers: services/cleanup/sweeping, adapters/machine/repeated, edge/sweep
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import turnstone.bootstrap.places.local
from tests.fakes.models.scripted import call
from tests.support.aws.aws_events import Context, load_event
from tests.support.engine.either_store import Make
from tests.support.engine.harness import AWAIT_S, LEASE_S, Gate, Held, Server, client_tool, eventually, saves_step
from turnstone.adapters.machine.repeated import Repeated
from turnstone.bootstrap.places.local import LocalServer
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge import sweep
from turnstone.edge.sweep import ScheduledSweep
from turnstone.services.cleanup.sweeping import Sweeper, Swept
from turnstone.settings.local_settings import LocalSettings

ROLL = call("roll", "r")
CLIENT_CALL = call("look", "l")
LONG = timedelta(seconds=600)


@pytest.fixture(autouse=True)
def _no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """No supervisor is notified of open turns, as if the process had died just before."""
    monkeypatch.setattr("turnstone.adapters.aws.step_functions.StepFunctionsSupervisor.watch", lambda *_: None)


def opened(server: Server) -> Any:
    return server.session(toolgroups=["dice"], client_tools=[client_tool()])


def abandoned(make: Make) -> TurnRef:
    """Return a turn whose process was killed after its first step."""
    server = make(ROLL, "never")
    server.store.after(saves_step, server.store.die)
    turn = server.start(opened(server)).ref
    eventually(lambda: server.store.is_dead and not server.core.executor._running)
    return turn


def swept(server: Server, **more: Any) -> Swept:
    sweeper = Sweeper(server.core.turn_store, server.core.recovery.reconcile, server.clock, **more)
    found = sweeper.sweep(server.clock.now() + LONG)
    server.settle()
    return found


def found_by_handler(server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the function's answer to the schedule's event."""
    monkeypatch.setattr(sweep, "datetime", SimpleNamespace(now=lambda _: server.clock.now()))
    handler = ScheduledSweep("another module")
    handler._core = server.core
    return handler(load_event("sweeper"), Context())


def test_a_turn_whose_process_was_killed_is_taken_over_and_run_to_its_end(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = abandoned(make)
    sweeper = make("done")
    answer = found_by_handler(sweeper, monkeypatch)
    assert (answer["taken_over"], sweeper.state(turn).status) == (0, TurnStatus.IN_PROGRESS), "its lease may be in use"
    sweeper.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    answer = found_by_handler(sweeper, monkeypatch)
    assert (answer["taken_over"], answer["failed"], answer["is_whole"]) == (1, 0, True)
    state = sweeper.state(turn)
    assert (state.status, len(state.turn.steps)) == (TurnStatus.COMPLETED, 3)
    sweeper.assert_whole(turn)


def test_a_turn_whose_client_did_not_come_back_expires(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    server, sweeper = make(CLIENT_CALL), make()
    turn = server.paused(opened(server))
    assert found_by_handler(sweeper, monkeypatch)["seen"] >= 1
    assert sweeper.state(turn).status is TurnStatus.AWAITING_INPUT
    sweeper.clock.advance(AWAIT_S + 1)  # type: ignore[attr-defined]
    assert found_by_handler(sweeper, monkeypatch)["ended"] >= 1
    assert sweeper.state(turn).status is TurnStatus.EXPIRED
    sweeper.assert_whole(turn)


def test_a_turn_that_runs_is_left_alone(make: Make) -> None:
    thinking = Held("done")
    server, sweeper = make(thinking), make()
    broadcast = server.start(opened(server))
    thinking.wait()
    assert swept(sweeper).taken_over == ()
    thinking.open()
    server.drain(broadcast)
    assert server.state(broadcast.ref).status is TurnStatus.COMPLETED


def test_one_broken_turn_does_not_stop_the_others(make: Make) -> None:
    turns = [abandoned(make) for _ in range(3)]
    sweeper = make(*["done"] * 4)
    sweeper.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    reconcile = sweeper.core.recovery.reconcile

    def breaking(ref: TurnRef) -> Any:
        if ref == turns[0]:
            raise StoreUnavailable("not now")
        if ref == turns[1]:
            raise ValueError("a record that nobody understands")
        return reconcile(ref)

    found = Sweeper(sweeper.core.turn_store, breaking, sweeper.clock).sweep(sweeper.clock.now() + LONG)
    sweeper.settle()
    assert found.failed == 2
    statuses = [sweeper.state(turn).status for turn in turns]
    assert statuses == [TurnStatus.IN_PROGRESS, TurnStatus.IN_PROGRESS, TurnStatus.COMPLETED]
    swept(sweeper)
    assert {sweeper.state(turn).status for turn in turns} == {TurnStatus.COMPLETED}


def test_a_sweep_begins_with_nothing_when_its_time_is_over(make: Make) -> None:
    turn = abandoned(make)
    sweeper = make("never")
    sweeper.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    found = sweeper.core.sweeper.sweep(sweeper.clock.now())
    assert (found.seen, found.is_whole) == (0, False)
    assert sweeper.state(turn).status is TurnStatus.IN_PROGRESS


def test_the_other_duties_are_done_and_one_that_fails_stops_none(make: Make) -> None:
    done: list[str] = []

    def fail(_: datetime) -> None:
        raise StoreUnavailable("not now")

    found = swept(make(), duties=(fail, lambda _: done.append("second")))
    assert (done, found.failed) == (["second"], 1)


def test_every_part_of_the_index_is_swept_wherever_the_sweep_begins(make: Make) -> None:
    server = make(*[CLIENT_CALL] * 12)
    turns = {server.paused(opened(server)) for _ in range(12)}
    for shard in range(9):
        assert turns <= set(server.core.turn_store.each_open(shard))
        assert len(list(server.core.turn_store.each_open(shard))) == len(server.core.turn_store.open_turns())


def test_a_turn_still_running_when_the_function_must_end_is_left_to_a_supervisor(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = abandoned(make)
    thinking = Gate()

    def think(_: object) -> str:
        thinking.pass_through()
        return "late"

    sweeper = make(think)
    sweeper.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    watched: list[TurnRef] = []
    supervisor: Any = sweeper.core.foundation.ports.supervisor
    monkeypatch.setattr(supervisor, "watch", lambda ref, lock: watched.append(ref), raising=False)
    taken = sweeper.core.sweeper.sweep(sweeper.clock.now() + LONG).taken_over
    thinking.wait()
    sweeper.core.recovery.see_out(taken, sweeper.clock.now())
    assert (taken, watched) == ((turn,), [turn])
    thinking.open()
    sweeper.settle()
    assert sweeper.state(turn).status is TurnStatus.IN_PROGRESS


# ---- on one machine


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstone.bootstrap.places.local, "SWEEP_EVERY_S", 0.02)


def test_a_server_on_one_machine_sweeps_by_itself(often: None, tmp_path: Path) -> None:
    server = LocalServer(LocalSettings(data_dir=tmp_path))
    sweeps: list[int] = []
    server._sweeps = Repeated(lambda: sweeps.append(1) or server._sweep(), 0.02)  # type: ignore[func-returns-value]
    server.start()
    try:
        eventually(lambda: len(sweeps) >= 3)
    finally:
        server.stop()
    made = len(sweeps)
    time.sleep(0.1)
    assert len(sweeps) == made


def test_an_act_that_fails_once_is_done_the_next_time() -> None:
    tries: list[int] = []

    def act() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("a bug")

    repeated = Repeated(act, 0.01)
    repeated.start()
    eventually(lambda: len(tries) >= 3)
    repeated.close()
