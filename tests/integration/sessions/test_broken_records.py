"""Unreadable records, of a damaged store or a newer version, stop no other work.

Covers: store/layout/frames, store/sessions/turns, services/cleanup/cleaning
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic_core import from_json

from tests.fakes.models.scripted import call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import AWAIT_S, FakeClock, Harness, Server, client_tool, eventually
from turnstone.bootstrap.places.local import LocalServer
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.jobs import Job
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.lost_turns import LOST
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Key, Put
from turnstone.services.cleanup.cleaning import SENT_AGAIN_AFTER
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.layout.keys import job_key, job_shards, open_shard, open_shards, turn_key, turn_key_of
from turnstone.store.sessions.turns import TurnStore

CLIENT_CALL = call("look", "l")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SECRET = "what somebody said"
LONG_NAME = "#" + 64 * "0"
NO_TURNS = {
    "no shape": Key("!odd", "#"),
    "no shape, behind all others": Key("~odd", "#"),
    "a session": Key("local|session:a:b", "ctx:~"),
    "an agent": Key("local|agent:a", "turn:t"),
    "too many names": Key("local|session:a:b:c", "turn:t"),
    "a name in another spelling": Key("loc%61l|session:a:b", "turn:t"),
    "no text": Key("local|session:%FF:b", "turn:t"),
    "a tenant that is hashed": Key(f"{LONG_NAME}|session:a:b", "turn:t"),
}


def paused(server: Server) -> TurnRef:
    return server.paused(server.session(client_tools=[client_tool()]))


def spoil_index(server: Server) -> int:
    """Put odd keys into every part of the index of open turns; return how many."""
    odd = [Key(key.pk, f"{key.sk}{shard}") for shard in open_shards() for key in NO_TURNS.values()]
    shards = [shard for shard in open_shards() for _ in NO_TURNS]
    for key, shard in zip(odd, shards, strict=True):
        server.records.write([Put(key, SECRET.encode(), {"open": shard})])
    return len(odd)


def break_turn(server: Server, turn: TurnRef) -> None:
    """Make the turn's record unreadable, while the index still has it."""
    attributes = {"status": "in_progress", "open": open_shard(turn)}
    server.records.write([Put(turn_key_of(turn), SECRET.encode(), attributes)])


def job_of(ref: SessionRef, kind: str = "clean_session", due_at: datetime = LONG_AGO) -> Job:
    made = Job(
        kind="clean_session", tenant="local", agent_id=ref.agent_id, session_id=ref.session_id, order="o",
        since=LONG_AGO, due_at=due_at,
    )  # fmt: skip
    return made.model_copy(update={"kind": kind})


def spoil_jobs(server: Server, ref: SessionRef) -> list[Key]:
    """Put records that are no jobs before all others in every part of their index; return their keys."""
    spoilt = []
    for number, shard in enumerate(job_shards()):
        for kind, body in (
            ("broken", SECRET.encode()),
            ("empty", b""),
            ("no_text", b"\xff\xfe"),
            ("export_session", job_of(ref, "export_session").model_dump_json(warnings=False).encode()),
        ):
            key = job_key(job_of(ref, kind, LONG_AGO + timedelta(seconds=number)))
            server.records.write([Put(key, body, {"open": shard})])
            spoilt.append(key)
    return spoilt


@pytest.mark.parametrize("sweep", ["due", "send_due"])
def test_deleted_sessions_are_cleaned_up_beside_unreadable_jobs(
    make: Make, sweep: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = make()
    ref, other = server.session(), server.session()
    spoilt = spoil_jobs(server, other)
    server.core.deleting.delete_session(LOCAL_CALLER, ref)
    server.jobs.taken()
    server.clock.advance(SENT_AGAIN_AFTER.total_seconds())  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING):
        if sweep == "send_due":
            assert server.core.cleaning.send_due() == 1
            (job,) = server.jobs.taken()
        else:
            (job,) = server.core.cleaning.due()
    assert (job.kind, job.session_ref) == ("clean_session", ref)
    assert sorted(key.pk for key in spoilt) == sorted(str(record.args[0]) for record in caplog.records)  # type: ignore[index]
    assert SECRET not in caplog.text
    assert [key for key in spoilt if server.records.get(key) is None] == [], "a newer version may do them"


@pytest.mark.parametrize("key", NO_TURNS.values(), ids=NO_TURNS)
def test_a_key_that_names_no_turn_is_left_out_of_the_open_turns(
    make: Make, key: Key, caplog: pytest.LogCaptureFixture
) -> None:
    server = make(CLIENT_CALL)
    turn = paused(server)
    server.records.write([Put(key, SECRET.encode(), {"open": open_shard(turn)})])
    with caplog.at_level(logging.WARNING):
        assert TurnStore(server.records).open_turns() == [turn]
    assert [record.args for record in caplog.records] == [(key,)]
    assert SECRET not in caplog.text


def test_the_sweeper_continues_past_odd_keys_and_broken_turns(make: Make) -> None:
    server = make(CLIENT_CALL, CLIENT_CALL)
    turn, broken = paused(server), paused(server)
    spoil_index(server)
    break_turn(server, broken)
    sweeper = make()
    sweeper.clock.advance(AWAIT_S + 1)  # type: ignore[attr-defined]
    swept = sweeper.core.sweeper.sweep(sweeper.clock.now() + timedelta(seconds=600))
    assert (swept.seen, swept.ended, swept.failed, swept.is_whole) == (1, 1, 1, True)
    assert sweeper.state(turn).status is TurnStatus.EXPIRED


def test_a_server_starts_and_does_its_work_over_odd_keys_broken_turns_and_broken_jobs(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.at = datetime.now(UTC) - timedelta(seconds=2 * AWAIT_S)
    before = Harness(tmp_path, [CLIENT_CALL, CLIENT_CALL], clock=clock)
    turn, broken = paused(before), paused(before)
    deleted = before.session()
    before.core.deleting.delete_session(LOCAL_CALLER, deleted)
    spoil_index(before)
    break_turn(before, broken)
    spoil_jobs(before, broken)
    server = LocalServer(LocalSettings(data_dir=tmp_path))
    server.start()
    try:
        eventually(lambda: before.state(turn).status is TurnStatus.EXPIRED)
        eventually(lambda: not [row for row in before.dump() if deleted.session_id in f"{row[0]} {row[4]!r}"])
    finally:
        server.stop()
        before.close()


def test_a_session_is_read_beside_unreadable_turns(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    server = make(CLIENT_CALL, "ok", "ok")
    broken = paused(server)
    server.whole_turn(broken)
    server.whole_turn(broken)
    ended, last = (state.order for state in server.states(broken)[1:])
    break_turn(server, broken)
    server.records.write([Put(turn_key(broken, ended), SECRET.encode(), {"status": "completed"})])
    _, turns = server.core.sessions.read(LOCAL_CALLER, broken, None)
    wires = [from_json(wire) for wire in turns]
    assert [wire["turn_id"] for wire in wires] == [broken.turn_id, ended, last]
    assert [wire["output_message"]["content"] == LOST for wire in wires] == [True, True, False]
    assert turns.lost == [broken.turn_id, ended]
    assert SECRET not in caplog.text
