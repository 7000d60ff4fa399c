"""`turnstone turns`: list and cancel open turns beside the server that runs them. On either store.

Covers: functions/command, services/operations/open_turns, store/sessions/turns
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from functions.command import main as cli
from tests.fakes.models.scripted import call
from tests.support.aws.state_machine import Bench
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server, client_tool, outline
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Delete, Put
from turnstone.store.layout.frames import frame
from turnstone.store.layout.keys import open_shard, session_key, turn_key_of
from turnstone.store.sessions.turns import SessionView, TurnStore

CLIENT_CALL = call("look", "l")
SECRET = "what somebody said"


@pytest.fixture
def command(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make) -> Make:
    """Run the command over the store of the made processes; return their factory."""
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    if request.node.callspec.params["make"] == "sqlite":
        monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path))
        return make
    bench: Bench = request.getfixturevalue("bench_for_make")
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    return make


def paused(server: Server) -> TurnRef:
    return server.paused(server.session(client_tools=[client_tool()]))


def names_of(turn: TurnRef) -> str:
    return f"agent={turn.agent_id}  session={turn.session_id}  tenant=local"


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    cli.main(["turns", *arguments])
    return capsys.readouterr().out.splitlines()


def test_the_list_shows_open_turns(command: Make, capsys: pytest.CaptureFixture[str]) -> None:
    thinking = Held("done")
    server = command(CLIENT_CALL, thinking)
    assert output_of(capsys, "list") == []
    turn = paused(server)
    running = server.start(server.session())
    thinking.wait()
    lines = {line.split()[0]: line for line in output_of(capsys, "list")}
    assert lines.keys() == {turn.turn_id, running.ref.turn_id}
    assert "  awaiting_input  since 20" in lines[turn.turn_id]
    assert names_of(turn) in lines[turn.turn_id]
    assert "  in_progress  " in lines[running.ref.turn_id]
    assert output_of(capsys, "list", "--tenant", "another") == []
    assert len(output_of(capsys, "list", "--all")) == 2
    thinking.open()
    server.drain(running)


def test_turns_that_are_named_are_cancelled_and_no_others(command: Make, capsys: pytest.CaptureFixture[str]) -> None:
    server = command(CLIENT_CALL, CLIENT_CALL, CLIENT_CALL)
    first, second, third = paused(server), paused(server), paused(server)
    lines = output_of(capsys, "cancel", first.turn_id, second.turn_id)
    assert [line.split()[:2] for line in lines] == [[turn.turn_id, "cancelled"] for turn in (first, second)]
    statuses = [server.state(turn).status for turn in (first, second, third)]
    assert statuses == [TurnStatus.CANCELLED, TurnStatus.CANCELLED, TurnStatus.AWAITING_INPUT]
    server.assert_whole(first)


def test_all_of_a_tenant_are_cancelled_while_their_server_runs(
    command: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    thinking = Held(CLIENT_CALL)
    server = command(CLIENT_CALL, thinking)
    turn = paused(server)
    running = server.start(server.session(client_tools=[client_tool()]))
    thinking.wait()
    assert output_of(capsys, "cancel", "--all", "--tenant", "another") == []
    assert len(output_of(capsys, "cancel", "--all")) == 2
    thinking.open()
    assert outline(server.drain(running)).endswith("failed:ended")
    assert {server.state(each).status for each in (turn, running.ref)} == {TurnStatus.CANCELLED}
    assert output_of(capsys, "list") == []


def test_an_ended_turn_is_reported_as_not_open(command: Make, capsys: pytest.CaptureFixture[str]) -> None:
    turn = paused(command(CLIENT_CALL))
    output_of(capsys, "cancel", turn.turn_id)
    with pytest.raises(SystemExit) as ended:
        cli.main(["turns", "cancel", turn.turn_id])
    not_open = f"no open turn {turn.turn_id!r} in tenant 'local'; it has ended, or belongs to another tenant"
    assert ended.value.code == f"turnstone: {not_open}"


def test_a_turn_that_is_not_open_is_named_and_none_is_cancelled(command: Make) -> None:
    server = command(CLIENT_CALL)
    turn = paused(server)
    for arguments in ([turn.turn_id, "unknown"], ["--tenant", "another", turn.turn_id]):
        with pytest.raises(SystemExit, match=r"^turnstone: no open turn .* in tenant "):
            cli.main(["turns", "cancel", *arguments])
    assert server.state(turn).status is TurnStatus.AWAITING_INPUT


def break_turn(server: Server, turn: TurnRef) -> None:
    """Make the turn's record unreadable, while the index still has it."""
    attributes = {"status": "awaiting_input", "open": open_shard(turn)}
    body = frame({}, json.dumps({"turn_id": [SECRET]}).encode())
    server.records.write([Put(turn_key_of(turn), body, attributes)])


def in_trouble(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    """Return the lines of output and of errors of a command that ends with an error."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["turns", *arguments])
    assert ended.value.code == 1
    output, errors = capsys.readouterr()
    return output.splitlines(), errors.splitlines()


def ids_in(lines: list[str]) -> set[str]:
    return {line.removeprefix("turnstone: ").split()[0] for line in lines}


def test_all_turns_are_cancelled_and_failures_are_named(command: Make, capsys: pytest.CaptureFixture[str]) -> None:
    server = command(*[CLIENT_CALL] * 5)
    turns = [paused(server) for _ in range(5)]
    in_order = server.core.turn_store.open_turns()
    broken, gone = in_order[0], in_order[1]
    break_turn(server, broken)
    server.records.write([Delete(session_key(gone))])  # its session was deleted, and the clean-up is still to come
    output, errors = in_trouble(capsys, "cancel", "--all")
    assert ids_in(output) == {turn.turn_id for turn in turns} - {broken.turn_id, gone.turn_id}
    assert ids_in(errors) == {broken.turn_id}
    assert "can't be cancelled: what is stored of it can't be understood" in errors[0]
    assert SECRET not in errors[0]


def test_a_turn_that_is_gone_when_it_would_be_cancelled_is_no_error_unless_it_was_named(
    command: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    server = command(CLIENT_CALL)
    turn = paused(server)
    server.records.write([Delete(session_key(turn))])
    assert output_of(capsys, "cancel", "--all") == []
    output, errors = in_trouble(capsys, "cancel", turn.turn_id)
    assert (output, ids_in(errors)) == ([], {turn.turn_id})
    assert "not found" in errors[0]


def test_a_turn_that_the_store_does_not_give_is_named_and_the_others_are_cancelled(
    command: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = command(*[CLIENT_CALL] * 3)
    turns = [paused(server) for _ in range(3)]
    first, *others = server.core.turn_store.open_turns()
    view = TurnStore.view

    def failing(store: TurnStore, ref: SessionRef, *more: Any) -> SessionView:
        if ref.session_id == first.session_id:
            raise StoreUnavailable("not now")
        return view(store, ref, *more)

    monkeypatch.setattr(TurnStore, "view", failing)
    output, errors = in_trouble(capsys, "cancel", *(turn.turn_id for turn in turns))
    assert ids_in(output) == {turn.turn_id for turn in others}
    assert errors == [f"turnstone: {first.turn_id} can't be cancelled: not now  {names_of(first)}"]
    assert {server.state(turn).status for turn in others} == {TurnStatus.CANCELLED}


def test_the_list_continues_past_an_unreadable_turn(command: Make, capsys: pytest.CaptureFixture[str]) -> None:
    server = command(*[CLIENT_CALL] * 3)
    turns = {paused(server) for _ in range(3)}
    broken = server.core.turn_store.open_turns()[0]
    break_turn(server, broken)
    output, errors = in_trouble(capsys, "list")
    assert ids_in(output) == {turn.turn_id for turn in turns - {broken}}
    assert errors[0].startswith(f"turnstone: {broken.turn_id} can't be read: what is stored of it can't be understood")
    assert errors[0].endswith(names_of(broken))
    assert SECRET not in errors[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["cancel"], "name the turns to cancel, or --all"),
        (["cancel", "--all", "x"], "name turns or --all, not both"),
        (["list", "--tenant", "another", "--all"], "not allowed with argument"),
    ],
)
def test_turns_must_be_selected_in_one_way(
    command: Make, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    command()
    with pytest.raises(SystemExit) as ended:
        cli.main(["turns", *arguments])
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err
