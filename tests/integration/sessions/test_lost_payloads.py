"""Turns, files and agents whose payloads are lost: the rest of their sessions works, on either store.

Covers: store/layout/oversize, store/layout/lost_records, store/files/attachments, store/sessions/turn_records
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Server, answer, attempt, client_tool, contents, outline
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.domain.turns.lost_turns import LOST
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.ports.records import Key, Record, Update
from turnstone.store.files.attachments import AttachmentStore
from turnstone.store.layout.keys import agent_key, attachment_key, session_key, turn_key_of
from turnstone.store.layout.oversize import payload_of

CLIENT_CALL = call("look", "l")
ANN = Caller(tenant="t", principal="ann", teams=("red",))
STRANGER = Caller(tenant="t", principal="stranger", teams=("blue",))


def noise() -> str:
    """Return text that no record has room for, even compressed."""
    return os.urandom(400_000).hex()


def lose(server: Server, key: Key) -> None:
    """Remove the payload of the record behind the server's back."""
    records: Any = server.records
    stored: Record | None = records._store.get(key)
    assert stored is not None
    payload = payload_of(stored)
    assert payload is not None, "its body is in the record"
    records._blobs.delete(payload.name)


def clean_up(server: Server) -> None:
    """Do the due jobs until none is left."""
    while due := server.core.cleaning.due():
        for job in due:
            server.core.cleaning.run_for(job, timedelta(0))
        server.clock.advance(0.001)  # type: ignore[attr-defined]


def attach(server: Server, ref: SessionRef) -> None:
    """Store a file in the session, as a tool of a running turn does."""
    server.records.write([Update(session_key(ref), {"status": LockState.RUNNING.value}, ())])
    AttachmentStore(server.records).put(ref, "a", ProducedFile("plot.png", "image/png", b"pixels"))


def lost_turn(server: Server, ref: SessionRef) -> TurnRef:
    """Return a turn of the session that has ended, and whose payload is lost."""
    broadcast = server.start(ref, noise())
    server.drain(broadcast)
    lose(server, turn_key_of(broadcast.ref))
    return broadcast.ref


def read(server: Server, ref: SessionRef) -> tuple[list[str], list[str]]:
    """Return the turns of the session as wire JSON, and the ids of those that are lost."""
    _, turns = server.core.sessions.read(LOCAL_CALLER, ref, None)
    return [wire.decode() for wire in turns], turns.lost


def test_a_session_shows_its_remaining_turns_and_the_model_reads_of_the_lost_ones(make: Make) -> None:
    server = make("one", "two", "three", context_tokens=1_000_000)
    ref = server.session()
    server.whole_turn(ref, "first")
    lost = lost_turn(server, ref)
    assert outline(server.whole_turn(ref, "last")) == "start S:infer P C:infer complete"
    wires, lost_ids = read(server, ref)
    assert (len(wires), lost_ids) == (3, [lost.turn_id])
    assert [LOST in wire for wire in wires] == [False, True, False]
    assert contents(server.inference.requests[-1].messages)[-4:] == ["first", "one", LOST, "last"]


def test_a_turn_that_is_deleted_while_its_session_is_read_is_left_out(make: Make) -> None:
    server = make("one", CLIENT_CALL)
    ref = server.session(client_tools=[client_tool()])
    server.whole_turn(ref)
    server.paused(ref)
    _, turns = server.core.sessions.read(LOCAL_CALLER, ref, None)
    draining = iter(turns)
    assert '"one"' in next(draining).decode()
    server.core.deleting.delete_session(LOCAL_CALLER, ref)
    clean_up(server)
    assert list(draining) == []
    assert turns.lost == []


def test_a_lost_turn_or_file_is_refused_for_good_and_only_to_callers_with_access(make: Make) -> None:
    server = make("one")
    core = server.core
    config = AgentConfig(model="scripted", instructions="")
    agent_id = core.agents.create(ANN, config, attempt())
    session_id = core.sessions.create(ANN, agent_id, "hers", attempt())
    ref = SessionRef(tenant=ANN.tenant, agent_id=agent_id, session_id=session_id)
    broadcast = core.turns.start(ANN, ref, NewTurn(messages=(UserMessage(content=noise()),)), attempt())
    server.drain(broadcast)
    turn = broadcast.ref
    lose(server, turn_key_of(turn))
    attach(server, ref)
    lose(server, attachment_key(ref, "a"))
    for caller, error in ((ANN, ContentLost), (STRANGER, NotFound)):
        with pytest.raises(error):
            core.reader.read(caller, turn)
        with pytest.raises(error):
            core.reader.read(caller, turn).step("s")
        with pytest.raises(error):
            core.events.follow(caller, turn, 0)
        with pytest.raises(error):
            core.turns.resume(caller, turn, (answer("l"),), attempt())
        with pytest.raises(error, match="'a' is lost" if error is ContentLost else None):
            core.attachments.read(caller, ref, "a")


def test_a_repeated_request_receives_that_the_turn_it_opened_is_lost(make: Make) -> None:
    server = make("one")
    ref = server.session()
    by = attempt("same", key="k")
    broadcast = server.start(ref, noise(), by)
    server.drain(broadcast)
    lose(server, turn_key_of(broadcast.ref))
    assert outline(server.whole_turn(ref, by=by)) == "start failed:content_lost"


def test_a_lost_turn_whose_process_is_gone_is_failed_and_frees_its_session(make: Make) -> None:
    server = make(CLIENT_CALL, "two")
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, noise())
    running = {"status": LockState.RUNNING.value, "lease_until": "2020-01-01T00:00:00.000000Z", "await_until": None}
    server.records.write(
        [Update(session_key(ref), running, ()), Update(turn_key_of(turn), {"status": "in_progress"}, ())]
    )
    lose(server, turn_key_of(turn))
    server.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    outlook = server.core.recovery.reconcile(turn)
    assert (outlook.status, outlook.check_at) == (TurnStatus.FAILED, None)
    state = server.reader.read(LOCAL_CALLER, turn).state
    assert (state.status, state.turn.output_message.content) == (TurnStatus.FAILED, LOST)
    assert state.failure is not None
    assert "content is lost" in state.failure.message
    assert outline(server.whole_turn(ref)).endswith("complete")


@pytest.mark.parametrize("by", ["cancel", "expiry"])
def test_a_lost_turn_that_waits_for_its_client_can_be_ended(make: Make, by: str) -> None:
    server = make(CLIENT_CALL)
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, noise())
    lose(server, turn_key_of(turn))
    if by == "cancel":
        assert server.core.cancelling.cancel(LOCAL_CALLER, turn, attempt()).status is TurnStatus.CANCELLED
    else:
        server.clock.advance(100_000)  # type: ignore[attr-defined]
        # the machine may store its token in between, and then the first reconciliation finds another revision
        statuses = [server.core.recovery.reconcile(turn).status for _ in range(3)]
        assert statuses[-1] is TurnStatus.EXPIRED
    assert server.header(ref).lock.state is LockState.IDLE
    assert read(server, ref)[0][0].count(LOST) == 1


def test_sessions_of_an_agent_whose_configuration_is_lost_go_with_it(make: Make) -> None:
    server = make()
    agent_id = server.agent(instructions=noise())
    ref = server.session(agent_id)
    lose(server, agent_key(ref.tenant, agent_id))
    with pytest.raises(ContentLost, match=f"agent '{agent_id}' is lost"):
        server.start(ref)
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    clean_up(server)
    with pytest.raises(NotFound):
        server.core.agents.wire(LOCAL_CALLER, agent_id)
    assert server.records.get(session_key(ref)) is None


def test_a_session_whose_own_record_is_lost_can_be_deleted(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    session_id = server.core.sessions.create(LOCAL_CALLER, agent_id, noise(), attempt())
    ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session_id)
    lose(server, session_key(ref))
    with pytest.raises(ContentLost, match=f"session '{session_id}' is lost"):
        server.core.sessions.read(LOCAL_CALLER, ref, None)
    server.core.deleting.delete_session(LOCAL_CALLER, ref)
    with pytest.raises(NotFound):
        server.core.sessions.read(LOCAL_CALLER, ref, None)
