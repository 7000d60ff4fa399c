"""Letta's tools, shared blocks, contexts and tags over both stores.

Covers: services/letta/agents, services/letta/contexts, services/agents/blocks, dialects/letta/overview/context,
dialects/letta/overview/message_objects, store/letta/agents
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import Reply, Scripted, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server, attempt
from turnstone.dialects.letta.overview.context import ContextWindowOverview, context_messages, overview_of, recall_of
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.blocks import BlockQuery, NewBlock
from turnstone.domain.errors import IdempotencyMismatch, InvalidRequest, LabelTaken, NotFound
from turnstone.domain.letta.agents import LettaAgent, TagQuery, main_session, tools_of, with_tool, without_tool
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.engine.summary import TASK
from turnstone.services.streams.broadcast import TurnBroadcast

STRANGER = Caller(tenant="another", principal="stranger")
HUMAN = {"label": "human", "value": "name: Bob"}
SEARCH = "conversation_search"


def send(text: str, call_id: str = "s") -> Scripted:
    return call("send_message", call_id, inner_thoughts="Hm.", message=text)


def create(server: Server, caller: Caller = LOCAL_CALLER, **fields: Any) -> LettaAgent:
    server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, "memory_blocks": [HUMAN], **fields})
    return server.core.letta_agents.create(caller, body.to_new("Sam"), attempt())


def begin(server: Server, agent_id: str, text: str = "hi") -> TurnBroadcast:
    return server.core.letta_messages.send(LOCAL_CALLER, agent_id, [UserMessage(content=text)], attempt())


def send_text(server: Server, agent_id: str, text: str = "hi") -> None:
    server.drain(begin(server, agent_id, text))


def prompts(server: Server) -> list[str]:
    return [str(request.messages[0].content) for request in server.inference.requests]


def overview(server: Server, agent_id: str) -> ContextWindowOverview:
    agent, context, turns = server.core.letta_contexts.read(LOCAL_CALLER, agent_id)
    passages = server.core.archives.count("local", agent_id)
    return overview_of(agent, context, turns, passages, "local")


def test_a_tool_is_added_and_removed_once_and_the_next_turn_offers_it(make: Make) -> None:
    server = make(send("one"), send("two"))
    agent_id = create(server, include_base_tools=False, tools=["send_message"]).agent_id
    change = server.core.letta_agents.change_config
    for name in (SEARCH, SEARCH, "core_memory_append"):
        agent = change(LOCAL_CALLER, agent_id, lambda config, name=name: {"toolgroups": with_tool(config, name)})
    assert tools_of(agent.config) == ("send_message", "core_memory_append", SEARCH)
    send_text(server, agent_id)
    for _ in range(2):
        agent = change(LOCAL_CALLER, agent_id, lambda config: {"toolgroups": without_tool(config, SEARCH)})
    assert tools_of(agent.config) == ("send_message", "core_memory_append")
    send_text(server, agent_id)
    offered = [{tool.name for tool in request.tools} for request in server.inference.requests]
    assert offered == [{"send_message", "core_memory_append", SEARCH}, {"send_message", "core_memory_append"}]
    with pytest.raises(NotFound):
        change(STRANGER, agent_id, lambda _: {"toolgroups": ()})


def test_an_edit_by_one_agent_is_in_the_running_turn_of_the_other(make: Make) -> None:
    held = Held(call("core_memory_append", "c", label="own", content="x", request_heartbeat=True))
    edits = call("core_memory_append", "d", inner_thoughts="Hm.", label="team", content="new words")
    server, other = make(held, send("done")), make(edits, send("later"))
    blocks = server.core.blocks
    block_id = blocks.create(LOCAL_CALLER, NewBlock("team", "old words", {})).block.block_id
    own = [{"label": "own", "value": "o"}]
    first, second = (create(server, memory_blocks=own, block_ids=[block_id], system="Hi.").agent_id for _ in range(2))
    turn = begin(server, first)
    held.wait()
    send_text(other, second)
    held.open()
    server.drain(turn)
    blocks.change(LOCAL_CALLER, block_id, {"value": "last words"})
    send_text(other, second)
    seen = [*prompts(server), *prompts(other)]
    found = [[text for text in ("old", "new", "last") if f"{text} words" in prompt] for prompt in seen]
    assert found == [["old"], ["old", "new"], ["old"], ["last"]]
    for agent_id in (first, second):
        server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    assert blocks.read(LOCAL_CALLER, block_id).block.value == "last words"


def test_a_block_is_created_once_for_its_key(make: Make) -> None:
    server = make()
    by = attempt("same", key="k")
    new = NewBlock("team", "tea", {})
    made = [server.core.blocks.create(LOCAL_CALLER, new, by).block.block_id for _ in range(2)]
    assert made[0] == made[1]
    with pytest.raises(IdempotencyMismatch):
        server.core.blocks.create(LOCAL_CALLER, new, attempt("other", key="k"))
    with pytest.raises(InvalidRequest):
        server.core.blocks.create(LOCAL_CALLER, NewBlock("team", "long", {"limit": 3}))
    assert len(list(server.core.blocks.list(LOCAL_CALLER, BlockQuery()))) == 1


def test_an_agent_has_one_block_of_a_label(make: Make) -> None:
    server = make()
    blocks = server.core.blocks
    agent = create(server)
    other = blocks.create(LOCAL_CALLER, NewBlock("human", "", {})).block.block_id
    team = blocks.create(LOCAL_CALLER, NewBlock("team", "", {})).block.block_id
    blocks.attach(LOCAL_CALLER, agent.agent_id, team)
    for act in (
        lambda: blocks.attach(LOCAL_CALLER, agent.agent_id, other),
        lambda: blocks.add(LOCAL_CALLER, agent.agent_id, NewBlock("team", "", {})),
        lambda: blocks.change(LOCAL_CALLER, team, {"label": "human"}),
    ):
        with pytest.raises(LabelTaken):
            act()
    assert blocks.change(LOCAL_CALLER, team, {"label": "team"}).block.label == "team"
    assert blocks.change(LOCAL_CALLER, other, {"label": "team"}).block.label == "team", "it has no agent"
    read = server.core.letta_agents.read(LOCAL_CALLER, agent.agent_id)
    assert [block.label for block in read.blocks] == ["human", "team"]


def test_a_hidden_block_is_missing_for_an_agent(make: Make) -> None:
    server = make(owner_only=True)
    other = LOCAL_CALLER.model_copy(update={"principal": "other"})
    owners = (STRANGER, other)
    hidden = [server.core.blocks.create(by, NewBlock("x", "", {})).block.block_id for by in owners]
    agent = create(server)
    for block_id in (*hidden, "none"):
        with pytest.raises(NotFound, match="block"):
            create(server, block_ids=[block_id])
        with pytest.raises(NotFound, match="block"):
            server.core.letta_agents.change(LOCAL_CALLER, agent.agent_id, {}, lambda _: {}, [block_id])


def test_the_list_of_blocks_has_the_requested_ones_in_parts(make: Make) -> None:
    server = make()
    made = []
    for number in range(4):
        server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
        new = NewBlock(f"l{number % 2}", "", {"is_template": number > 1, "name": f"n{number}"})
        made.append(server.core.blocks.create(LOCAL_CALLER, new).block.block_id)

    def listed(query: BlockQuery) -> list[str]:
        return [each.block.block_id for each in server.core.blocks.list(LOCAL_CALLER, query)]

    assert listed(BlockQuery(limit=2)) == made[:2]
    assert listed(BlockQuery(limit=9, after=made[1])) == made[2:]
    assert listed(BlockQuery(label="l1")) == made[1::2]
    assert listed(BlockQuery(label="l1", is_template=True)) == made[3:]
    assert listed(BlockQuery(name="n2")) == made[2:3]
    assert list(server.core.blocks.list(STRANGER, BlockQuery())) == []
    with pytest.raises(NotFound):
        listed(BlockQuery(after="none"))


def test_an_overview_counts_what_the_next_inference_sees(make: Make) -> None:
    note = call(
        "core_memory_append",
        "c",
        inner_thoughts="I keep it.",
        label="human",
        content="x",
        **{"request_heartbeat": True},
    )
    server = make(note, send("done"))
    agent_id = create(server, system="Be kind.").agent_id
    before = overview(server, agent_id)
    assert (before.num_messages, before.num_recall_memory, before.num_tokens_messages) == (1, 1, 0)
    send_text(server, agent_id)
    after = overview(server, agent_id)
    assert [(each.role, each.name) for each in after.messages] == [
        ("system", None),
        ("user", None),
        ("assistant", None),
        ("tool", "core_memory_append"),
        ("user", None),
        ("assistant", None),
        ("tool", "send_message"),
    ]
    called = after.messages[2]
    assert called.text == "I keep it."
    assert [each.function.name for each in called.tool_calls or ()] == ["core_memory_append"]
    assert after.messages[3].tool_call_id == "c"
    assert (after.num_messages, after.num_recall_memory) == (7, 7)
    assert after.core_memory in str(after.messages[0].text)
    assert after.num_tokens_messages > before.num_tokens_messages
    agent, context, turns = server.core.letta_contexts.read(LOCAL_CALLER, agent_id)
    assert context_messages(agent, context, turns, "local").root == after.messages
    _, turns = server.core.letta_messages.read(LOCAL_CALLER, agent_id, None)
    assert recall_of(turns).size == 7
    with pytest.raises(NotFound):
        server.core.letta_contexts.read(STRANGER, agent_id)


def test_an_overview_leaves_out_the_messages_that_do_not_fit(make: Make) -> None:
    def model(request: InferenceRequest) -> Reply:
        if request.messages[0].content == TASK:
            return ""
        return call("send_message", f"s{len(server.inference.requests)}", inner_thoughts="Hm.", message="x" * 6_000)

    server = make(*[model] * 20, context_tokens=4_000)
    agent_id = create(server).agent_id
    for number in range(6):
        send_text(server, agent_id, f"text {number}")
    seen = overview(server, agent_id)
    sent = [each.text for each in seen.messages if each.role == "user"]
    assert sent == [f"text {number}" for number in range(6 - len(sent), 6)]
    ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=main_session(agent_id, 0))
    alerts = sum(trace.has_alert for state in server.states(ref) for trace in state.traces)
    assert seen.num_recall_memory == 1 + 6 * 3 + alerts
    assert 1 < seen.num_messages < seen.num_recall_memory
    assert len(seen.messages) == seen.num_messages


def test_tags_are_those_of_visible_agents_in_their_order(make: Make) -> None:
    server = make(owner_only=True)
    other = LOCAL_CALLER.model_copy(update={"principal": "other"})
    create(server, tags=["b", "a"])
    create(server, tags=["b", "Cat"])
    create(server, other, tags=["hidden"])
    tags = server.core.letta_agents.tags
    assert tags(LOCAL_CALLER, TagQuery(50)) == ("Cat", "a", "b")
    assert tags(LOCAL_CALLER, TagQuery(1, after="Cat")) == ("a",)
    assert tags(LOCAL_CALLER, TagQuery(50, text="CA")) == ("Cat",)
    assert tags(STRANGER, TagQuery(50)) == ()
