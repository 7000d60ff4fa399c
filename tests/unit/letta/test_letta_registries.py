"""Tools of agents, queries of tags and blocks, and messages as the model sees them.

Covers: domain/letta/agents, domain/agents/blocks, dialects/letta/lists, dialects/letta/overview
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnstone.dialects.letta.lists import agent_in, blocks_query, tags_query
from turnstone.dialects.letta.message_requests import messages_query
from turnstone.dialects.letta.messages import CalledTool, ReasoningNote, Row, ToolCallNote, ToolReturnNote, UserNote
from turnstone.dialects.letta.overview.message_objects import objects_in
from turnstone.domain.agents.agents import AgentConfig, ToolGroup, ToolGroupWithArgs
from turnstone.domain.agents.blocks import BlockQuery, MemoryBlock, compiled, head_of, texts_of
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.agents import LettaAgent, LettaFields, TagQuery, tools_of, with_tool, without_tool

AT = datetime(2026, 1, 1, tzinfo=UTC)
WEB = ToolGroupWithArgs(name="builtin::websearch", args={"region": {"a": 1}})


def config(*toolgroups: ToolGroup) -> AgentConfig:
    return AgentConfig(model="m", instructions="", toolgroups=toolgroups)


def test_a_tool_is_added_once() -> None:
    assert with_tool(config(WEB), "send_message") == (WEB, "letta::core/send_message")
    for group in ("letta::core", "letta::core/send_message"):
        assert with_tool(config(group), "send_message") == (group,)


def test_a_removed_tool_leaves_the_others_of_its_group() -> None:
    assert without_tool(config(WEB, "letta::core"), "send_message") == (WEB, "letta::core/conversation_search")
    assert without_tool(config("letta::core/send_message", WEB), "send_message") == (WEB,)
    both = config("letta::core", "letta::core/conversation_search")
    assert without_tool(both, "send_message") == ("letta::core/conversation_search",)
    assert without_tool(config("builtin::core_memory"), "send_message") == ("builtin::core_memory",)
    assert tools_of(config(*without_tool(config("builtin::core_memory"), "core_memory_append"))) == (
        "core_memory_replace",
    )


def test_the_parts_of_a_memory_are_the_whole() -> None:
    blocks = [MemoryBlock(block_id=name, label=name, value="x", updated_at=AT) for name in ("a", "b")]
    assert compiled(blocks) == f"{head_of(blocks)}\n{texts_of(blocks)}"


def test_queries_have_their_defaults() -> None:
    assert blocks_query({}) == BlockQuery(limit=50, is_template=True)
    given = {"templates_only": ["false"], "cursor": ["block-a"], "limit": ["2"], "label": ["l"], "name": ["n"]}
    assert blocks_query(given) == BlockQuery(limit=2, after="a", label="l", name="n")
    assert tags_query({}) == TagQuery(50)
    assert tags_query({"cursor": ["a"], "limit": ["2"], "query_text": ["b"]}) == TagQuery(2, "a", "b")
    assert agent_in({"agent_id": ["agent-a"]}) == "a"
    assert messages_query({"msg_object": ["true"]}).has_objects is True


@pytest.mark.parametrize(
    ("name", "text"), [("templates_only", "maybe"), ("limit", "0"), ("limit", "1001"), ("agent_id", "")]
)
def test_an_invalid_parameter_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as refused:
        (agent_in if name == "agent_id" else blocks_query)({name: [text]})
    assert refused.value.location == ("query", name)


def test_a_row_is_one_message_as_the_model_sees_it() -> None:
    about = {"id": "message-a", "date": AT}
    called = CalledTool(name="send_message", arguments="{}", tool_call_id="c")
    rows = [
        Row(0, (UserNote(message="hi", **about),)),
        Row(1, ()),
        Row(2, (ReasoningNote(reasoning="Hm.", **about), ToolCallNote(tool_call=called, **about))),
        Row(3, (ToolReturnNote(tool_return="None", status="success", tool_call_id="c", **about),)),
        Row(4, (ToolReturnNote(tool_return="None", status="success", tool_call_id="d", **about),)),
    ]
    agent = LettaAgent(
        agent_id="a", config=config(), created_at=AT, owner=None, fields=LettaFields.model_construct(), blocks=()
    )
    found = list(objects_in(rows, agent, "tenant"))
    assert [(each.role, each.text, each.name, each.tool_call_id) for each in found] == [
        ("user", "hi", None, None),
        ("assistant", "Hm.", None, None),
        ("tool", "None", "send_message", "c"),
        ("tool", "None", None, "d"),
    ]
    assert [call.id for call in found[1].tool_calls or ()] == ["c"]
