"""Imports of agents over both stores: long histories, files of both schemas, refusals, and processes that end.

Covers: services/letta/importing, dialects/letta/files/agent_files, dialects/letta/files/messages,
domain/letta/histories
"""

from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tests.fakes.models.scripted import call
from tests.support.engine.banks import done_jobs
from tests.support.engine.either_store import Make
from tests.support.engine.harness import ProcessDied, Server, StoreCall, attempt, contents
from turnstone.dialects.letta.files.agent_files import (
    MOST_MESSAGES,
    ImportFields,
    exported,
    import_of,
    newest_within,
    schema_of,
)
from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, rows_of
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, NotFound, StoreUnavailable
from turnstone.domain.letta.agents import LettaAgent, LettaQuery, main_session
from turnstone.domain.messages.messages import SystemMessage, UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.turns import TurnState
from turnstone.ports.records import Put

AT = datetime(2025, 6, 1, tzinfo=UTC)
SEND = "send_message"
MOST_TRANSACTION_BYTES = 4 * 1024 * 1024  # DynamoDB's limit, which its double lacks
AS_IT_IS = ImportFields(append_copy_suffix=False)
Json = dict[str, Any]


def row(role: str, text: str, second: int = 0, **more: Any) -> Json:
    at = (AT + timedelta(seconds=second)).isoformat()
    return {"role": role, "content": [{"type": "text", "text": text}], "created_at": at, **more}


def called(name: str, call_id: str, **arguments: Any) -> list[Json]:
    return [{"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]


def turn_rows(number: int) -> list[Json]:
    call_id = f"c{number}"
    return [
        row("user", f"question {number}", 3 * number),
        row("assistant", "I answer.", 3 * number + 1, tool_calls=called(SEND, call_id, message=f"answer {number}")),
        row("tool", "None", 3 * number + 2, tool_call_id=call_id, name=SEND),
    ]


def file_of(rows: list[Json], **more: Any) -> Json:
    agent = {
        "id": "agent-0",
        "name": "Sam",
        "system": "Be brief.",
        "llm_config": {"model": "scripted", "context_window": 8_192, "model_endpoint_type": "openai"},
        "block_ids": ["block-0"],
        "tool_ids": ["tool-0"],
        "tags": ["a"],
        "messages": [row("system", "Be brief."), *rows],
    }
    blocks = [{"id": "block-0", "label": "human", "value": "Bob", "metadata": {"k": 1}}]
    tools = [{"id": "tool-0", "name": SEND, "tool_type": "letta_core"}]
    return {"agents": [{**agent, **more}], "blocks": blocks, "tools": tools, "groups": [], "files": [], "sources": []}


def imported(server: Server, content: Json, fields: ImportFields = AS_IT_IS) -> LettaAgent:
    file = schema_of(content).model_validate(content)
    parts = import_of(file, fields, server.core.letta_importing.now)
    return server.core.letta_importing.create(LOCAL_CALLER, parts, attempt())


def export(server: Server, agent: LettaAgent) -> Json:
    found, turns = server.core.letta_messages.read(LOCAL_CALLER, agent.agent_id, None)
    shown: Json = json.loads(exported(found, newest_within(turns), LOCAL_CALLER.tenant).model_dump_json())
    return shown


def ref_of(agent: LettaAgent) -> SessionRef:
    session_id = main_session(agent.agent_id, 0)
    return SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent.agent_id, session_id=session_id)


def states(server: Server, agent: LettaAgent) -> list[TurnState]:
    return server.states(ref_of(agent))


def kinds(state: TurnState) -> list[str]:
    return [note.message_type for each in rows_of(state, NO_ANSWER_TOOL) for note in each.notes]


def test_a_long_history_is_imported_whole_and_the_conversation_continues(make: Make) -> None:
    server = make(call(SEND, "s", inner_thoughts="Hm.", message="well"))
    content = file_of([each for number in range(130) for each in turn_rows(number)])
    agent = imported(server, content)
    found = states(server, agent)
    assert len(found) == 130
    assert [state.turn.started_at for state in found[:2]] == [AT, AT + timedelta(seconds=3)]
    assert found[7].turn.output_message.content == "answer 7"
    assert kinds(found[0]) == ["user_message", "reasoning_message", "tool_call_message", "tool_return_message"]
    turn = server.core.letta_messages.send(LOCAL_CALLER, agent.agent_id, [UserMessage(content="and?")], attempt())
    server.drain(turn)
    texts = contents(server.inference.requests[0].messages)
    assert ("question 129" in texts, texts[-1]) == (True, "and?")
    server.assert_whole(ref_of(agent))


def test_no_write_of_a_large_history_is_over_the_limit_of_a_transaction(make: Make) -> None:
    server = make()
    texts = [base64.b64encode(random.Random(number).randbytes(300_000)).decode() for number in range(18)]
    rows = [row(role, text if role == "user" else "Yes.") for text in texts for role in ("user", "assistant")]
    agent = imported(server, file_of(rows))
    bodies = [
        [len(each.body) for each in call.operations if isinstance(each, Put)]
        for call in server.store.calls
        if call.verb == "write"
    ]
    assert sum(map(sum, bodies)) > MOST_TRANSACTION_BYTES
    assert max(map(sum, bodies)) < MOST_TRANSACTION_BYTES
    assert [state.turn.input_messages[0].content for state in states(server, agent)] == texts


def test_a_new_agent_begins_with_the_messages_that_its_creator_sends(make: Make) -> None:
    server = make(call(SEND, "s", inner_thoughts="Hm.", message="well"))
    first = [{"role": "system", "text": "Bob is new."}, {"role": "user", "text": "hello"}]
    body = CreateLettaAgent.model_validate({"llm": "scripted", "initial_message_sequence": first})
    importing = server.core.letta_importing
    agent = importing.create(LOCAL_CALLER, body.to_imported("Sam", importing.now), attempt())
    (state,) = states(server, agent)
    assert (kinds(state), state.turn.input_messages) == (
        ["system_message", "user_message"],
        (SystemMessage(content="Bob is new."), UserMessage(content="hello")),
    )
    turn = server.core.letta_messages.send(LOCAL_CALLER, agent.agent_id, [UserMessage(content="and?")], attempt())
    server.drain(turn)
    assert contents(server.inference.requests[0].messages)[1:] == ["Bob is new.", "hello", "and?"]
    server.assert_whole(ref_of(agent))


def test_a_new_agent_without_such_messages_is_stored_by_one_write(make: Make) -> None:
    server = make()
    for none in (None, []):
        body = CreateLettaAgent.model_validate({"llm": "scripted", "initial_message_sequence": none})
        before = len(server.store.calls)
        server.core.letta_importing.create(LOCAL_CALLER, body.to_imported("Sam", AT), attempt())
        assert [each.verb for each in server.store.calls[before:]].count("write") == 1


def test_an_export_of_an_import_is_equal(make: Make) -> None:
    server = make()
    first = export(server, imported(server, file_of([each for number in range(3) for each in turn_rows(number)])))
    again = imported(server, first)
    assert export(server, again) == first
    assert [block.metadata for block in again.blocks] == [{"k": 1}]
    assert len(first["agents"][0]["messages"]) == 10


def test_messages_of_another_server_become_turns(make: Make) -> None:
    server = make()
    packed = json.dumps({"type": "user_message", "message": "hi", "time": "now"})
    failed = json.dumps({"status": "Failed", "message": "no such label", "time": "now"})
    done = json.dumps({"status": "OK", "message": "None", "time": "now"})
    rows = [
        row("assistant", "Booting."),
        row("user", json.dumps({"type": "login", "last_login": "never"}), 1),
        row("user", packed, 2),
        row("assistant", "I note.", 3, tool_calls=called("core_memory_append", "c1", label="x", content="y")),
        row("tool", failed, 4, tool_call_id="c1"),
        row("user", json.dumps({"type": "heartbeat", "reason": "failed"}), 5),
        row("assistant", "I answer.", 6, tool_calls=called(SEND, "c2", message="hello")),
        row("tool", done, 7, tool_call_id="c2"),
        row("system", "A note.", 8),
        row("user", "two", 9),
        row("user", "three", 10),
    ]
    found = states(server, imported(server, file_of(rows)))
    assert [kinds(state) for state in found] == [
        ["reasoning_message"],
        [
            *("user_message", "reasoning_message", "tool_call_message", "tool_return_message"),
            *("user_message", "reasoning_message", "tool_call_message", "tool_return_message"),
        ],
        ["system_message", "user_message", "user_message"],
    ]
    notes = [note.model_dump() for each in rows_of(found[1], NO_ANSWER_TOOL) for note in each.notes]
    assert (notes[0]["message"], notes[3]["tool_return"], notes[3]["status"]) == ("hi", "no such label", "error")
    assert found[1].turn.output_message.content == "hello"


@pytest.mark.parametrize(
    "sent", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", -10_000_000_000, "9999-12-31T23:59:59-14:00"]
)
def test_a_conversation_of_times_that_no_id_has_continues(make: Make, sent: object) -> None:
    server = make(call(SEND, "s", inner_thoughts="Hm.", message="well"))
    agent = imported(server, file_of([{**row("user", "hi"), "created_at": sent}]))
    server.drain(server.core.letta_messages.send(LOCAL_CALLER, agent.agent_id, [UserMessage(content="?")], attempt()))
    assert [state.turn.output_message.content for state in states(server, agent)] == ["", "well"]


def test_the_older_schema_is_imported(make: Make) -> None:
    server = make()
    content = {
        "agent_type": "memgpt_agent",
        "name": "Old",
        "system": "Be old.",
        "llm_config": {"model": "scripted"},
        "core_memory": [{"label": "human", "value": "Ann", "limit": 2_000, "metadata_": {"m": 1}}],
        "tags": [{"tag": "t"}],
        "tools": [{"name": SEND, "tool_type": "letta_core"}],
        "tool_rules": [{"type": "exit_loop", "tool_name": SEND}, {"type": "run_first", "tool_name": SEND}],
        "tool_exec_environment_variables": [],
        "messages": [row("system", "Be old."), *turn_rows(0)],
        "metadata_": {"k": 2},
        "version": "0.7.0",
    }
    agent = imported(server, content, ImportFields())
    assert (agent.config.name, agent.config.instructions, agent.fields.tags) == ("Old_copy", "Be old.", ("t",))
    assert [(block.label, block.value, block.limit) for block in agent.blocks] == [("human", "Ann", 2_000)]
    assert [rule.type for rule in agent.fields.tool_rules or ()] == ["terminal", "first"]
    assert (agent.fields.metadata, len(states(server, agent))) == ({"k": 2}, 1)
    assert [rule["type"] for rule in export(server, agent)["agents"][0]["tool_rules"]] == ["exit_loop", "run_first"]


REFUSALS: dict[str, Json] = {
    "groups": {"groups": [{"id": "group-0"}]},
    "files": {"files": [{"id": "file-0"}]},
    "sources": {"sources": [{"id": "source-0"}]},
    "mcp_servers": {"mcp_servers": [{"id": "m"}]},
    "skills": {"skills": [{"name": "s"}]},
    "one agent": {"agents": [{"name": "a"}, {"name": "b"}]},
    "at least 1": {"agents": []},
    "read_only": {"blocks": [{"id": "block-0", "label": "human", "read_only": True}]},
}
REFUSED_OF_AGENT: dict[str, Json] = {
    "source_ids": {"source_ids": ["source-0"]},
    "tool_exec_environment_variables": {"tool_exec_environment_variables": {"K": "secret"}},
    "files_agents": {"files_agents": [{"id": "f"}]},
    "group_ids": {"group_ids": ["group-0"]},
    "message_buffer_autoclear": {"message_buffer_autoclear": True},
    "no part with the id 'tool-9'": {"tool_ids": ["tool-9"]},
    "no part with the id 'block-9'": {"block_ids": ["block-9"]},
    "no tool 'roll_dice'": {"tools": ["roll_dice"]},
    "max_count_per_step": {"tool_rules": [{"type": "max_count_per_step", "tool_name": SEND}]},
    "no tool rule of the type": {"tool_rules": [{"type": ["x"], "tool_name": SEND}]},
    "name": {"name": "a/b"},
    "llm": {"llm_config": {}},
    "type 'image'": {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
    "no call before it": {"messages": [row("user", "hi"), row("tool", "x", tool_call_id="c")]},
    f"at most {MOST_MESSAGES} items": {"messages": [row("user", "hi")] * (MOST_MESSAGES + 1)},
}


@pytest.mark.parametrize("reason", [*REFUSALS, *REFUSED_OF_AGENT])
def test_what_this_server_lacks_is_refused_by_its_name(make: Make, reason: str) -> None:
    server = make()
    content = {**file_of([]), **REFUSALS[reason]} if reason in REFUSALS else file_of([], **REFUSED_OF_AGENT[reason])
    with pytest.raises((ValidationError, InvalidRequest)) as refused:
        imported(server, content)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)
    assert list(server.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=5))) == []


def turns_stored(server: Server) -> int:
    """Return how many turns of imports the store holds."""
    puts = [each for call in server.store.calls for each in call.operations if isinstance(each, Put)]
    keys = {put.key for put in puts if put.key.sk.startswith("turn:")}
    return sum(server.records.get(key) is not None for key in keys)


def creates(each: StoreCall) -> bool:
    return any(isinstance(put, Put) and put.key.sk == "letta" for put in each.operations)


def test_a_refused_import_leaves_no_record(make: Make) -> None:
    server = make()

    def fail() -> None:
        raise NotFound("block", "b")

    server.store.before(creates, fail)
    with pytest.raises(NotFound):
        imported(server, file_of([each for number in range(40) for each in turn_rows(number)]))
    assert turns_stored(server) == 0
    assert list(server.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=5))) == []


@pytest.mark.parametrize(("when", "left"), [("before", 0), ("after", 1)])
def test_turns_stay_with_their_agent_alone_where_the_end_of_an_import_is_unclear(
    make: Make, when: str, left: int
) -> None:
    server = make()

    def fail() -> None:
        raise StoreUnavailable("no answer")

    getattr(server.store, when)(creates, fail)
    with pytest.raises(StoreUnavailable):
        imported(server, file_of(turn_rows(0)))
    server.clock.advance(7_200)  # type: ignore[attr-defined]
    done_jobs(server)
    assert turns_stored(server) == left
    assert len(list(server.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=5)))) == left


def test_the_turns_of_an_import_whose_process_dies_are_removed(make: Make) -> None:
    server = make()
    server.store.before(creates, server.store.die)
    with pytest.raises(ProcessDied):
        imported(server, file_of(turn_rows(0)))
    assert turns_stored(server) == 1
    other = make()
    other.clock.advance(7_200)  # type: ignore[attr-defined]
    done_jobs(other)
    assert turns_stored(server) == 0


def test_a_repeated_import_creates_one_agent(make: Make) -> None:
    server = make()
    file = schema_of(content := file_of(turn_rows(0))).model_validate(content)
    parts = import_of(file, AS_IT_IS, server.core.letta_importing.now)
    by = attempt("import", key="k")
    first, again = (server.core.letta_importing.create(LOCAL_CALLER, parts, by) for _ in range(2))
    assert first.agent_id == again.agent_id
    assert turns_stored(server) == 1
    assert len(states(server, first)) == 1


def test_an_export_has_the_newest_messages_that_an_import_takes(make: Make) -> None:
    server = make()
    agent = imported(server, file_of([each for number in range(4) for each in turn_rows(number)]))
    _, turns = server.core.letta_messages.read(LOCAL_CALLER, agent.agent_id, None)
    chosen = newest_within(turns, 8)
    assert [state.turn.input_messages[0].content for state in chosen] == ["question 2", "question 3"]


def with_roll(returned: str) -> Json:
    text = '"""Roll a die.\n\n    Args:\n        sides: How many.\n    """'
    source = f"def roll(sides: int) -> str:\n    {text}\n    return {returned!r}\n"
    content = file_of([])
    (agent,) = content["agents"]
    tool = {"id": "tool-1", "name": "roll", "source_code": source, "tool_type": "custom", "return_char_limit": 50}
    content["tools"] = [*content["tools"], tool]
    agent["tool_ids"] = ["tool-0", "tool-1"]
    return content


def test_a_file_has_the_tools_of_python_of_its_agent(make: Make) -> None:
    server = make()
    agent = imported(server, with_roll("6"))
    assert [tool.name for tool in agent.tools] == ["roll"]
    first = export(server, agent)
    assert [tool["name"] for tool in first["tools"]] == [SEND, "roll"]
    assert "return '6'" in first["tools"][1]["source_code"]
    again = imported(server, first)
    assert export(server, again) == first
    assert again.tools == agent.tools


@pytest.mark.parametrize(("overrides", "returned"), [(True, "1"), (False, "6")])
def test_an_existing_tool_of_a_file_is_replaced_or_used(make: Make, overrides: bool, returned: str) -> None:
    server = make()
    before = imported(server, with_roll("6"))
    fields = AS_IT_IS.model_copy(update={"override_existing_tools": overrides})
    after = imported(server, with_roll("1"), fields)
    assert after.tools[0].tool_id == before.tools[0].tool_id
    assert f"return {returned!r}" in after.tools[0].source_code


@pytest.mark.parametrize(
    ("source", "refused"), [(None, "has no tool 'roll'"), ("import os", "function"), ("def", "source_code")]
)
def test_a_tool_of_a_file_without_a_function_is_refused(make: Make, source: str | None, refused: str) -> None:
    content = with_roll("6")
    content["tools"][1]["source_code"] = source
    with pytest.raises(InvalidRequest, match=refused):
        imported(make(), content)
