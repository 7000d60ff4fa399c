"""Letta's agents and messages over both stores: one write at creation, changes, shared agents, and parallel sends.

Covers: services/letta/agents, services/letta/messages, services/letta/messaging, store/letta/agents,
store/letta/conversation, bootstrap/services/agents
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Held, Server, attempt, saves_step, together
from turnstone.dialects.letta.message_requests import MessagesQuery
from turnstone.dialects.letta.messages import AnswerTool
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.blocks import NewBlock
from turnstone.domain.errors import InvalidRequest, NotFound, TurnAwaited
from turnstone.domain.letta.agents import LettaAgent, LettaQuery, main_session
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.http.errors import FAILURE_STATUS
from turnstone.services.streams.broadcast import TurnBroadcast

STRANGER = Caller(tenant="another", principal="stranger")
HUMAN = {"label": "human", "value": "name: Bob"}


def send(text: str, call_id: str = "s", **more: Any) -> Scripted:
    return call("send_message", call_id, inner_thoughts="Hm.", message=text, **more)


def create(server: Server, by: Attempt | None = None, **fields: Any) -> LettaAgent:
    server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, "memory_blocks": [HUMAN], **fields})
    return server.core.letta_agents.create(LOCAL_CALLER, body.to_new("Sam"), by or attempt())


def begin(server: Server, agent_id: str, text: str = "hi", by: Attempt | None = None) -> TurnBroadcast:
    messages = [UserMessage(content=text)]
    return server.core.letta_messages.send(LOCAL_CALLER, agent_id, messages, by or attempt())


def send_text(server: Server, agent_id: str, text: str = "hi") -> TurnState:
    turn = begin(server, agent_id, text)
    server.drain(turn)
    return server.state(turn.ref)


def prompts(server: Server) -> list[str]:
    return [str(request.messages[0].content) for request in server.inference.requests]


def listed(server: Server, **query: Any) -> list[str]:
    found = server.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=query.pop("limit", 50), **query))
    return [str(agent.config.name) for agent in found]


def test_an_agent_its_fields_and_its_blocks_are_stored_by_one_write(make: Make) -> None:
    server = make()
    kept = server.core.blocks.create(LOCAL_CALLER, NewBlock("pet", "cat", {}))
    before = len(server.store.calls)
    agent = create(server, block_ids=[f"block-{kept.block.block_id}"], tags=["a", "a", "b"], metadata_={"k": 1})
    writes = [each for each in server.store.calls[before:] if each.verb == "write"]
    assert len(writes) == 1
    read = server.core.letta_agents.read(LOCAL_CALLER, agent.agent_id)
    assert read == agent
    assert [block.label for block in read.blocks] == ["human", "pet"]
    assert (read.fields.tags, read.fields.metadata) == (("a", "b"), {"k": 1})


def test_a_creation_is_done_once_for_its_key(make: Make) -> None:
    server = make()
    by = attempt("same", key="k")
    assert create(server, by).agent_id == create(server, by).agent_id
    assert len(listed(server)) == 1


def test_an_agent_that_names_a_missing_block_leaves_nothing(make: Make) -> None:
    server = make()
    with pytest.raises(NotFound, match="block"):
        create(server, block_ids=["block-none"])
    with pytest.raises(InvalidRequest, match="label 'human'"):
        create(server, memory_blocks=[HUMAN, HUMAN])
    assert listed(server) == []


def test_messages_are_turns_of_the_main_session_under_lettas_loop(make: Make) -> None:
    note = call("core_memory_append", "c", inner_thoughts="x", label="human", content="tea", request_heartbeat=True)
    server = make(note, send("noted"), send("again"))
    agent_id = create(server, system="Be kind. {CORE_MEMORY}").agent_id
    state = send_text(server, agent_id)
    assert state.turn.output_message.content == "noted"
    assert (state.origin, state.inference_count) == ("letta", 2)
    assert state.turn.session_id == main_session(agent_id, 0)
    send_text(server, agent_id)
    assert ["tea" in prompt for prompt in prompts(server)] == [False, True, True]
    assert {request.tool_choice for request in server.inference.requests} == {"required"}
    _, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    assert [each.order for each in turns][1:] == [state.order]


def test_a_failed_call_continues_and_the_limit_of_steps_ends_the_turn(make: Make) -> None:
    wrong = [call("core_memory_replace", f"c{n}", label="human", old_content="no", new_content="") for n in range(50)]
    server = make(*wrong, max_infer_iters=50)
    state = send_text(server, create(server).agent_id)
    assert (state.status, state.inference_count) == (TurnStatus.COMPLETED, 50)


def test_rules_that_allow_no_tool_are_named_in_the_failure_of_the_turn(make: Make) -> None:
    server = make()
    rules = [{"type": "InitToolRule", "tool_name": "missing"}]
    agent_id = create(server, include_base_tools=False, tools=["send_message"], tool_rules=rules).agent_id
    state = send_text(server, agent_id)
    assert state.failure is not None
    assert (state.failure.kind, state.failure.code.value) == ("not_runnable", "invalid_request")
    assert "tool_rules" in state.failure.message
    assert FAILURE_STATUS[state.failure.kind] == 400


def test_one_agent_answers_in_both_apis_with_one_prompt(make: Make) -> None:
    server = make(send("in letta"), "in agents", send("theirs"))
    agent_id = create(server).agent_id
    send_text(server, agent_id)
    server.whole_turn(server.session(agent_id))
    assert len(set(prompts(server))) == 1
    assert "name: Bob" in prompts(server)[0]
    server.clock.advance(1)  # type: ignore[attr-defined]
    theirs = server.agent(instructions="Hi", name="theirs", toolgroups=["letta::core"])
    assert send_text(server, theirs).turn.output_message.content == "theirs"
    assert listed(server) == ["Sam", "theirs"]


def test_parallel_sends_wait_for_each_other(make: Make) -> None:
    first = Held(send("one"))
    server = make(first, send("two"))
    agent_id = create(server).agent_id
    turn = begin(server, agent_id, "first")
    first.wait()
    with pytest.raises(TurnAwaited):
        begin(server, agent_id, "second")
    first.open()
    server.drain(turn)
    assert send_text(server, agent_id, "second").turn.output_message.content == "two"


def test_an_equal_message_is_another_turn_unless_its_key_is_equal(make: Make) -> None:
    server = make(send("one"), send("two"), send("three"))
    agent_id = create(server).agent_id
    turns = []
    for by in (attempt("yes"), attempt("yes"), attempt("yes", key="k"), attempt("yes", key="k")):
        turn = begin(server, agent_id, "yes", by)
        server.drain(turn)
        turns.append(turn.ref.turn_id)
    assert len(set(turns)) == 3
    assert turns[2] == turns[3]
    assert len(server.inference.requests) == 3


def test_an_equal_message_waits_for_the_running_one(make: Make) -> None:
    held = Held(send("one"))
    server = make(held)
    agent_id = create(server).agent_id
    first = begin(server, agent_id, "yes", attempt("yes"))
    held.wait()
    with pytest.raises(TurnAwaited):
        begin(server, agent_id, "yes", attempt("yes"))
    held.open()
    server.drain(first)


def test_a_change_reaches_the_next_turn_and_not_the_running_one(make: Make) -> None:
    held = Held(call("core_memory_append", "c", label="human", content="x", request_heartbeat=True))
    server = make(held, send("old"), send("new"))
    agent_id = create(server, system="Old.").agent_id
    turn = begin(server, agent_id)
    held.wait()
    change = server.core.letta_agents.change
    changed = change(LOCAL_CALLER, agent_id, {"instructions": "New.", "name": "Ann"}, lambda _: {"tags": ("t",)})
    held.open()
    server.drain(turn)
    send_text(server, agent_id)
    assert [prompt.partition("\n")[0] for prompt in prompts(server)] == ["Old.", "Old.", "New."]
    assert (changed.config.name, changed.fields.tags) == ("Ann", ("t",))
    assert listed(server, name="Ann", tags=("t",)) == ["Ann"]
    assert server.core.agents.wire(LOCAL_CALLER, agent_id).count(b"New.") == 1


def test_other_blocks_replace_those_of_the_agent(make: Make) -> None:
    server = make()
    agent = create(server)
    kept = server.core.blocks.create(LOCAL_CALLER, NewBlock("pet", "cat", {}))
    changed = server.core.letta_agents.change(LOCAL_CALLER, agent.agent_id, {}, lambda _: {}, [kept.block.block_id])
    assert [block.label for block in changed.blocks] == ["pet"]
    with pytest.raises(NotFound):
        server.core.blocks.read(LOCAL_CALLER, agent.blocks[0].block_id)
    with pytest.raises(NotFound):
        server.core.letta_agents.change(LOCAL_CALLER, agent.agent_id, {}, lambda _: {}, ["none"])


def test_two_changes_at_once_are_both_made(make: Make) -> None:
    server = make()
    agent_id = create(server).agent_id
    change = partial(server.core.letta_agents.change, LOCAL_CALLER, agent_id)
    together(
        lambda: change({"name": "Ann"}, lambda _: {}),
        lambda: change({"instructions": "New."}, lambda _: {}),
        lambda: change({}, lambda _: {"description": "d"}),
    )
    agent = server.core.letta_agents.read(LOCAL_CALLER, agent_id)
    assert (agent.config.name, agent.config.instructions, agent.fields.description) == ("Ann", "New.", "d")


def test_the_list_has_the_requested_agents_in_parts(make: Make) -> None:
    server = make()
    ids = [create(server, name=f"Agent {n}", tags=["all", f"t{n % 2}"]).agent_id for n in range(5)]
    assert listed(server, limit=2) == ["Agent 0", "Agent 1"]
    assert listed(server, limit=2, after=ids[1]) == ["Agent 2", "Agent 3"]
    assert listed(server, tags=("t1", "none")) == ["Agent 1", "Agent 3"]
    assert listed(server, tags=("t1", "all"), has_all_tags=True) == ["Agent 1", "Agent 3"]
    assert listed(server, text="AGENT 4") == ["Agent 4"]
    assert listed(server, text="no") == []
    with pytest.raises(NotFound):
        listed(server, after="none")


def test_an_agent_of_another_tenant_is_missing(make: Make) -> None:
    server = make()
    agent_id = create(server).agent_id
    agents, messages = server.core.letta_agents, server.core.letta_messages
    acts: list[Any] = [
        lambda: agents.read(STRANGER, agent_id),
        lambda: agents.change(STRANGER, agent_id, {"name": "x"}, lambda _: {}),
        lambda: messages.send(STRANGER, agent_id, [UserMessage(content="hi")], attempt()),
        lambda: messages.read(STRANGER, agent_id, None),
        lambda: server.core.blocks.add(STRANGER, agent_id, NewBlock("pet", "cat", {})),
    ]
    for act in acts:
        with pytest.raises(NotFound):
            act()
    assert list(agents.list(STRANGER, LettaQuery(limit=10))) == []


def test_messages_of_a_running_turn_are_read_with_its_steps(make: Make) -> None:
    held = Held(send("done"))
    note = call("core_memory_append", "c", label="human", content="x", request_heartbeat=True)
    server = make(note, held)
    agent_id = create(server).agent_id
    turn = begin(server, agent_id)
    held.wait()
    agent, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    notes = MessagesQuery(None, 100, AnswerTool("")).notes(agent, turns)
    assert [note.message_type for note in notes] == [
        "system_message",
        "user_message",
        "tool_call_message",
        "tool_return_message",
    ]
    held.open()
    server.drain(turn)


def test_a_turn_continues_under_lettas_loop_in_another_process(make: Make) -> None:
    note = call("core_memory_append", "c", label="human", content="x", request_heartbeat=True)
    dying = make(note)
    agent_id = create(dying).agent_id
    steps: list[int] = []
    dying.store.after(saves_step, lambda: steps.append(1))
    dying.store.before(lambda each: saves_step(each) and len(steps) == 1, dying.store.die)
    turn = begin(dying, agent_id)
    dying.drain(turn)
    heir = make(send("done"))
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(turn.ref)
    heir.settle()
    state = heir.state(turn.ref)
    assert (state.status, state.turn.output_message.content) == (TurnStatus.COMPLETED, "done")
    assert [request.tool_choice for request in heir.inference.requests] == ["required"]
    assert heir.core.letta_agents.read(LOCAL_CALLER, agent_id).block("human").value == "name: Bob\nx"


def test_a_deleted_agent_is_missing(make: Make) -> None:
    server = make(send("hello"))
    agent_id = create(server).agent_id
    send_text(server, agent_id)
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    with pytest.raises(NotFound):
        server.core.letta_agents.read(LOCAL_CALLER, agent_id)


def test_a_reset_removes_all_messages_of_the_agent_and_ends_its_running_turn(make: Make) -> None:
    held = Held(send("late"))
    server = make(send("first"), held, send("new"))
    agent_id = create(server).agent_id
    send_text(server, agent_id, "old words")
    turn = begin(server, agent_id)
    held.wait()
    server.core.letta_messages.reset(LOCAL_CALLER, agent_id)
    held.open()
    server.drain(turn)
    agent, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    assert (list(turns), agent.fields.generation, agent.block("human").value) == ([], 1, "name: Bob")
    assert send_text(server, agent_id).turn.output_message.content == "new"
    assert not any("old words" in str(message) for message in server.inference.requests[-1].messages)
    with pytest.raises(NotFound):
        server.core.letta_messages.reset(STRANGER, agent_id)


def test_a_search_of_the_conversation_finds_earlier_messages_newest_first(make: Make) -> None:
    find = call("conversation_search", "f", query="TEA", request_heartbeat=True)
    wrong = call("conversation_search", "w", query=" ", request_heartbeat=True)
    server = make(send("You like tea."), send("No coffee."), find, wrong, send("done"))
    agent_id = create(server).agent_id
    send_text(server, agent_id, "I like tea")
    send_text(server, agent_id, "I hate coffee")
    state = send_text(server, agent_id, "What about tea?")
    answers = [str(each.content) for step in state.turn.steps for each in getattr(step, "tool_responses", ())]
    assert answers[0].startswith("Page 0, 2 results")
    assert answers[0].index("You like tea.") < answers[0].index("I like tea")
    assert "query: must be a text" in answers[1]
