"""Letta's runs over both stores: begun once, run by any process, listed while open, and removed.

Covers: services/letta/runs, store/letta/runs, dialects/letta/turns/runs, domain/letta/runs
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Held, Server, attempt, completes_turn, eventually
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.turns.runs import RunMessagesQuery, run_of
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import Forbidden, ModelFailed, NotFound
from turnstone.domain.letta.runs import LettaRun
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.turns.attempts import Attempt

STRANGER = Caller(tenant="another", principal="stranger")
ANN, BOB = (Caller(tenant="local", principal=name, teams=("red",)) for name in ("ann", "bob"))
ADMIN = Caller(tenant="local", principal="root", roles=("admin",))


def send(text: str) -> Scripted:
    return call("send_message", "s", inner_thoughts="Hm.", message=text)


def agent(server: Server, caller: Caller = LOCAL_CALLER) -> str:
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}})
    return server.core.letta_agents.create(caller, body.to_new("Sam"), attempt()).agent_id


def begin(
    server: Server, agent_id: str, by: Attempt | None = None, caller: Caller = LOCAL_CALLER, **config: Any
) -> LettaRun:
    messages = [UserMessage(content="hi")]
    return server.core.letta_runs.start(caller, agent_id, messages, config, by or attempt())


def read(server: Server, run: LettaRun) -> LettaRun:
    return server.core.letta_runs.read(LOCAL_CALLER, run.ref.turn_id)


def listed(server: Server, limit: int = 50) -> list[str]:
    return [run.ref.turn_id for run in server.core.letta_runs.list(LOCAL_CALLER, limit)]


def active(server: Server) -> list[str]:
    return [run.ref.turn_id for run in server.core.letta_runs.active(LOCAL_CALLER, 50)]


def test_a_run_is_created_runs_and_has_its_result(make: Make) -> None:
    held = Held(send("done"))
    server = make(held, is_on_lambda=False)
    run = begin(server, agent(server))
    assert run_of(run).status == "created"
    held.wait()
    running = run_of(read(server, run))
    assert (running.status, running.completed_at, active(server)) == ("running", None, [run.ref.turn_id])
    held.open()
    server.settle()
    ended = run_of(read(server, run))
    assert ended.status == "completed"
    assert [each["message_type"] for each in ended.metadata_["result"]["messages"]] == [
        *("reasoning_message", "assistant_message")
    ]
    assert (active(server), listed(server)) == ([], [run.ref.turn_id])


def test_a_run_is_begun_once_for_its_key(make: Make) -> None:
    server = make(send("done"), is_on_lambda=False)
    agent_id, by = agent(server), attempt("same", key="k")
    first = begin(server, agent_id, by)
    server.settle()
    assert begin(server, agent_id, by).ref == first.ref
    assert (listed(server), len(server.inference.requests)) == ([first.ref.turn_id], 1)


def test_an_equal_message_is_another_run(make: Make) -> None:
    server = make(send("one"), send("two"), is_on_lambda=False)
    agent_id = agent(server)
    first = begin(server, agent_id, attempt("same"))
    server.settle()
    second = begin(server, agent_id, attempt("same"))
    server.settle()
    assert first.ref != second.ref
    assert len(server.inference.requests) == 2


def test_a_process_that_dies_in_the_middle_is_replaced(make: Make) -> None:
    server = make(is_on_lambda=True)
    run = begin(server, agent(server))
    assert run_of(read(server, run)).status == "created"
    assert active(server) == [run.ref.turn_id]
    dying, heir = make(send("done")), make(send("done"))
    dying.store.before(completes_turn, dying.store.die)
    dying.core.recovery.reconcile(run.ref)
    eventually(lambda: dying.store.is_dead and not dying.core.executor._running)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(run.ref)
    heir.settle()
    assert run_of(read(server, run)).status == "completed"
    assert active(server) == []


def test_messages_of_a_run_are_chosen_by_role_cursor_and_order(make: Make) -> None:
    server = make(send("done"), is_on_lambda=False)
    run = begin(server, agent(server), use_assistant_message=False)
    server.settle()
    run = read(server, run)

    def kinds(after: str | None = None, limit: int = 9, *, up: bool = True, role: str | None = None) -> list[str]:
        return [note.message_type for note in RunMessagesQuery(after, limit, up, role).notes(run)]

    rows = ["user_message", "reasoning_message", "tool_call_message", "tool_return_message"]
    assert kinds() == rows
    assert kinds(up=False) == ["tool_return_message", "reasoning_message", "tool_call_message", "user_message"]
    first = RunMessagesQuery(None, 1, True, None).notes(run)[0].id
    assert kinds(first, 1) == rows[1:3]
    assert (kinds(first, up=False), kinds(role="tool")) == ([], rows[3:])
    with pytest.raises(NotFound):
        kinds("message-none")


def test_a_deleted_run_is_cancelled_and_leaves_its_messages(make: Make) -> None:
    held = Held(send("done"))
    server = make(held, is_on_lambda=False)
    agent_id = agent(server)
    run = begin(server, agent_id)
    held.wait()
    deleted = run_of(server.core.letta_runs.delete(LOCAL_CALLER, run.ref.turn_id, attempt()))
    held.open()
    server.settle()
    assert (deleted.status, deleted.metadata_.keys()) == ("failed", {"error"})
    assert (listed(server), active(server)) == ([], [])
    with pytest.raises(NotFound):
        read(server, run)
    _, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    assert [each.turn_id for each in turns] == [run.ref.turn_id]


def test_a_caller_that_may_cancel_the_turn_of_a_run_cancels_it_and_leaves_it_in_the_list(make: Make) -> None:
    held = Held(send("done"))
    server = make(held, send("again"), is_on_lambda=False)
    agent_id = agent(server, ANN)
    run = begin(server, agent_id, caller=ANN)
    held.wait()
    delete, by = server.core.letta_runs.delete, attempt()
    for _ in range(2):
        assert run_of(delete(BOB, run.ref.turn_id, by)).status == "failed"
    held.open()
    server.settle()
    assert [each.ref for each in server.core.letta_runs.list(ANN, 50)] == [run.ref]
    assert run_of(delete(ANN, run.ref.turn_id, attempt())).status == "failed"
    ended = begin(server, agent_id, caller=ANN)
    server.settle()
    with pytest.raises(Forbidden, match="run"):
        delete(BOB, ended.ref.turn_id, attempt())
    assert run_of(server.core.letta_runs.read(BOB, ended.ref.turn_id)).status == "completed"


def test_an_admin_deletes_a_run_without_its_content(make: Make) -> None:
    held = Held(send("secret"))
    server = make(send("secret"), held, is_on_lambda=False)
    agent_id = agent(server, ANN)
    ended = begin(server, agent_id, caller=ANN, assistant_message_tool_name="secret")
    server.settle()
    running = begin(server, agent_id, caller=ANN)
    held.wait()
    for run, status in ((ended, "completed"), (running, "failed")):
        with pytest.raises(NotFound, match="run"):
            server.core.letta_runs.read(ADMIN, run.ref.turn_id)
        deleted = run_of(server.core.letta_runs.delete(ADMIN, run.ref.turn_id, attempt()))
        assert (deleted.status, deleted.metadata_, deleted.request_config) == (status, {}, None)
    held.open()
    server.settle()
    assert list(server.core.letta_runs.list(ANN, 50)) == []


def test_an_admin_does_not_delete_a_run_of_a_deleted_agent(make: Make) -> None:
    server = make(send("done"), is_on_lambda=False)
    agent_id = agent(server, ANN)
    run = begin(server, agent_id, caller=ANN)
    server.settle()
    server.core.deleting.delete_agent(ANN, agent_id)
    with pytest.raises(NotFound, match="run"):
        server.core.letta_runs.delete(ADMIN, run.ref.turn_id, attempt())


def test_a_run_whose_model_fails_has_the_reason(make: Make) -> None:
    server = make(ModelFailed("model down"), is_on_lambda=False)
    run = begin(server, agent(server))
    server.settle()
    failed = run_of(read(server, run))
    assert (failed.status, failed.completed_at is None, failed.metadata_.keys()) == ("failed", False, {"error"})
    assert "its model gave no usable answer" in failed.metadata_["error"]
    assert (active(server), listed(server)) == ([], [run.ref.turn_id])


def test_a_reset_ends_and_removes_the_runs_of_its_messages(make: Make) -> None:
    held, second = Held(send("done")), Held(send("again"))
    server = make(held, second, is_on_lambda=False)
    agent_id = agent(server)
    run = begin(server, agent_id)
    held.wait()
    server.core.letta_messages.reset(LOCAL_CALLER, agent_id)
    assert (listed(server), active(server)) == ([], [])
    held.open()
    server.settle()
    with pytest.raises(NotFound, match="run"):
        read(server, run)
    again = begin(server, agent_id)
    second.wait()
    assert active(server) == [again.ref.turn_id]
    second.open()
    server.settle()
    assert listed(server) == [again.ref.turn_id]


def test_runs_are_missing_for_others_after_their_time_and_without_their_agent(make: Make) -> None:
    server = make(send("one"), send("two"), is_on_lambda=False)
    agents = [agent(server), agent(server)]
    runs = []
    for agent_id in agents:
        server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
        runs.append(begin(server, agent_id))
        server.settle()
    ids = [run.ref.turn_id for run in runs]
    assert (listed(server), listed(server, 1)) == (ids[::-1], ids[1:])
    assert list(server.core.letta_runs.list(STRANGER, 50)) == []
    for act in (server.core.letta_runs.read, lambda *of: server.core.letta_runs.delete(*of, attempt())):
        with pytest.raises(NotFound, match="run"):
            act(STRANGER, ids[0])
    server.core.deleting.delete_agent(LOCAL_CALLER, agents[0])
    with pytest.raises(NotFound, match="run"):
        read(server, runs[0])
    assert listed(server) == ids[1:]
    server.clock.advance(40 * 24 * 3600)  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match="run"):
        read(server, runs[1])
    assert listed(server) == []
