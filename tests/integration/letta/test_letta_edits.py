"""Edited messages over both stores: the next turn has them, and the list shows them.

Covers: services/letta/editing, domain/letta/edits, dialects/letta/turns/edits, store/sessions/log_entries,
services/cleanup/deleting
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.banks import done_jobs
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server, attempt
from turnstone.dialects.letta.ids import message_id
from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, rows_of
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.turns.edits import MessageObject, MessageUpdate, edit_of, message_object
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import TurnRef

STRANGER = Caller(tenant="another", principal="stranger")
NOTE = call(
    "core_memory_append", "n", inner_thoughts="I keep it.", label="human", content="tea", request_heartbeat=True
)


def send(text: str) -> Scripted:
    return call("send_message", "s", inner_thoughts="Hm.", message=text)


def agent(server: Server) -> str:
    block = {"label": "human", "value": "Bob"}
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, "memory_blocks": [block]})
    return server.core.letta_agents.create(LOCAL_CALLER, body.to_new("Sam"), attempt()).agent_id


def turn(server: Server, agent_id: str, text: str = "hi") -> TurnRef:
    broadcast = server.core.letta_messages.send(LOCAL_CALLER, agent_id, [UserMessage(content=text)], attempt())
    server.drain(broadcast)
    return broadcast.ref


def edit(server: Server, ref: TurnRef, row: int, by: Caller = LOCAL_CALLER, **fields: Any) -> MessageObject:
    update, text = MessageUpdate.model_validate(fields), message_id(ref.turn_id, row)
    edited = server.core.letta_editing.edit(
        by, ref.agent_id, text, ref.turn_id, lambda state: edit_of(update, state, row, text)
    )
    return message_object(edited.agent, by.tenant, edited.state, row, edited.at)


def prompt(server: Server) -> str:
    """Return the messages of the newest request to the model, without the system message."""
    shown = server.inference.requests[-1].messages[1:]
    return json.dumps([message.model_dump(mode="json") for message in shown], ensure_ascii=False)


@pytest.mark.parametrize("size", [1, 6_000])
def test_the_next_turn_has_the_edited_messages(make: Make, size: int) -> None:
    server = make(NOTE, send("hello"), send("later"), send("last"))
    agent_id = agent(server)
    ref = turn(server, agent_id, "first " * size)
    turn(server, agent_id, "second")
    sent = edit(server, ref, 0, text="EDITED INPUT")
    assert (sent.role, sent.text, sent.name, sent.tool_calls) == ("user", "EDITED INPUT", None, None)
    thought = edit(server, ref, 1, text="EDITED THOUGHTS")
    assert (thought.role, thought.text) == ("assistant", "EDITED THOUGHTS")
    answer = edit(server, ref, 2, text="EDITED RESULT")
    assert (answer.role, answer.text, answer.name) == ("tool", "EDITED RESULT", "core_memory_append")
    assert answer.tool_call_id == thought.tool_calls[0].id if thought.tool_calls else False
    call_id = edit(server, ref, 4).tool_calls[0].id  # type: ignore[index]
    function = {"name": "send_message", "arguments": '{"message": "EDITED ANSWER"}'}
    changed = edit(server, ref, 4, tool_calls=[{"id": call_id, "type": "function", "function": function}])
    assert (changed.text, changed.tool_calls[0].function.arguments) == ("Hm.", '{"message":"EDITED ANSWER"}')  # type: ignore[index]
    state = server.state(ref)
    assert state.turn.output_message.content == "EDITED ANSWER"
    assert "EDITED RESULT" in str([note for row in rows_of(state, NO_ANSWER_TOOL) for note in row.notes])
    turn(server, agent_id, "third")
    seen = prompt(server)
    for text in ("EDITED INPUT", "EDITED THOUGHTS", "EDITED RESULT", "EDITED ANSWER"):
        assert text in seen, text
    assert "first first" not in seen
    assert "hello" not in seen
    assert "later" in seen


def test_what_is_not_the_messages_own_is_refused(make: Make) -> None:
    server = make(NOTE, send("hello"))
    ref = turn(server, agent(server))
    calls = [{"id": "x", "function": {"name": "a", "arguments": "{}"}}]
    for row, fields, word in (
        (0, {"tool_calls": calls}, "tool_calls"),
        (2, {"tool_calls": calls}, "tool_calls"),
        (1, {"tool_calls": calls}, "tool_calls"),
        (1, {"tool_call_id": "x"}, "tool_call_id"),
        (2, {"tool_call_id": "x"}, "tool_call_id"),
        (0, {"role": "system"}, "role"),
        (2, {"name": "other"}, "name"),
        (3, {"text": "x"}, "automated"),
    ):
        with pytest.raises(InvalidRequest, match=word) as refused:
            edit(server, ref, row, **fields)
        assert not refused.value.location, "400"
    for row in (6, 99):
        with pytest.raises(NotFound, match="message"):
            edit(server, ref, row, text="x")
    with pytest.raises(NotFound, match="agent"):
        edit(server, ref, 0, STRANGER, text="x")
    missing = ref.session.turn(ref.agent_id)
    with pytest.raises(NotFound, match="message"):
        edit(server, missing, 0, text="x")


def test_a_running_turn_refuses_edits(make: Make) -> None:
    held = Held(send("second"))
    server = make(send("hello"), held)
    agent_id = agent(server)
    ref = turn(server, agent_id)
    broadcast = server.core.letta_messages.send(LOCAL_CALLER, agent_id, [UserMessage(content="more")], attempt())
    held.wait()
    with pytest.raises(TurnRunning):
        edit(server, ref, 0, text="x")
    held.open()
    server.drain(broadcast)
    assert edit(server, ref, 0, text="x").text == "x"


@pytest.mark.parametrize("is_in_agents_api", [True, False])
def test_messages_after_a_deletion_outlive_its_clean_up(make: Make, is_in_agents_api: bool) -> None:
    server = make(send("one"), send("two"), send("three"))
    agent_id = agent(server)
    before = turn(server, agent_id, "old")
    if is_in_agents_api:
        server.core.deleting.delete_session(LOCAL_CALLER, before.session)
    else:
        server.core.letta_messages.reset(LOCAL_CALLER, agent_id)
    turn(server, agent_id, "new")
    done_jobs(server)
    turn(server, agent_id, "newer")
    _, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    assert [state.turn.input_messages[0].content for state in turns] == ["newer", "new"]
    assert ("old" in prompt(server), "new" in prompt(server)) == (False, True)
