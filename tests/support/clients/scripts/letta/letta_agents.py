"""Letta's own client, unmodified: agents, memory blocks, messages whole and streamed, and refusals.

Arguments: base URL up to and including /letta.
"""

import sys

from letta_client import (
    ChildToolRule,
    ConditionalToolRule,
    CreateBlock,
    EmbeddingConfig,
    InitToolRule,
    Letta,
    LlmConfig,
    MessageCreate,
    TerminalToolRule,
)
from letta_client.core.api_error import ApiError
from reporting import report

LLM = LlmConfig(
    model="words", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1/v1", context_window=8192
)
EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)


def raised(act: object) -> list[object]:
    try:
        act()
    except ApiError as error:
        return [error.status_code, str(error.body)]
    raise AssertionError("nothing was raised")


def texts(text: str) -> list[MessageCreate]:
    return [MessageCreate(role="user", text=text)]


def shown(messages: list[object]) -> list[list[object]]:
    """Return each message by its kind and its text."""
    fields = ("message", "reasoning", "assistant_message", "tool_return")
    rows = []
    for each in messages:
        call = getattr(each, "tool_call", None)
        text = next((getattr(each, name) for name in fields if getattr(each, name, None) is not None), None)
        name = call["name"] if isinstance(call, dict) else getattr(call, "name", None)  # the client's parsing is lax
        rows.append([each.message_type, text if call is None else name])
    return rows


def main(base_url: str) -> None:
    client = Letta(base_url=base_url)
    report(health=client.health.check().status, models=[model.handle for model in client.models.list_llms()])
    report(tools=[tool.name for tool in client.tools.list()], added=len(client.tools.add_base_tool()))
    agent = client.agents.create(
        name="Sam",
        llm_config=LLM,
        embedding_config=EMBEDDING,
        memory_blocks=[CreateBlock(label="human", value="name: Bob"), CreateBlock(label="persona", value="I am Sam")],
        tags=["a", "b"],
        metadata={"k": 1},
    )
    report(
        created=[agent.name, agent.llm_config.model, agent.llm_config.model_endpoint, agent.tags, agent.metadata],
        blocks=[[block.label, block.value, block.limit] for block in agent.memory.blocks],
        agent_tools=[tool.name for tool in agent.tools],
        same=client.agents.get(agent.id).id == agent.id,
        found=[each.id == agent.id for each in client.agents.list(tags=["b"], query_text="SA")],
        not_found=client.agents.list(tags=["c"]),
    )
    memory = client.agents.core_memory
    added = memory.add_block(agent_id=agent.id, label="pet", value="cat")
    changed = memory.update_block(agent_id=agent.id, block_label="pet", value="dog")
    report(
        pet=[len(added.blocks), changed.value, memory.get_block(agent_id=agent.id, block_label="pet").value],
        removed=len(memory.remove_block(agent_id=agent.id, block_label="pet").blocks),
        labels=[block.label for block in memory.get_blocks(agent_id=agent.id)],
    )
    first = client.agents.messages.send(agent_id=agent.id, messages=texts("hi"))
    second = client.agents.messages.send(agent_id=agent.id, messages=texts("remember: likes tea"))
    report(
        first=shown(first.messages),
        usage=[first.usage.step_count, second.usage.step_count, first.usage.total_tokens],
        second=shown(second.messages),
        human=memory.get_block(agent_id=agent.id, block_label="human").value,
    )
    streamed = list(client.agents.messages.stream(agent_id=agent.id, messages=texts("remember: likes cake")))
    listed = client.agents.messages.list(agent_id=agent.id, limit=3)
    before = client.agents.messages.list(agent_id=agent.id, limit=100, before=listed[0].id)
    ids = [each.id for each in streamed if hasattr(each, "id")]
    report(
        streamed=shown(streamed),
        listed=shown(listed),
        oldest=before[0].message_type,
        counted=len({each.id for each in (*before, *listed)}),
        same_ids=set(ids) <= {each.id for each in (*before, *listed)},
    )
    updated = client.agents.update(agent_id=agent.id, name="Sam 2", system="Be brief. {CORE_MEMORY}", tags=[])
    client.agents.messages.send(agent_id=agent.id, messages=texts("again"))
    report(updated=[updated.name, updated.system, updated.tags, updated.metadata])
    archival = client.agents.archival_memory
    written = [archival.create(agent_id=agent.id, text=text) for text in ("The sky is blue", "Grass is green")]
    kept = [passage.id for passages in written for passage in passages]
    found = client.agents.messages.send(agent_id=agent.id, messages=texts("find: grass"))
    archival.delete(agent_id=agent.id, memory_id=kept[0])
    report(
        passages=[passage.text for passage in archival.list(agent_id=agent.id)],
        after=[passage.id for passage in archival.list(agent_id=agent.id, after=kept[1])],
        size=archival.get_summary(agent_id=agent.id).size,
        searched=shown(found.messages),
    )
    client.agents.reset_messages(agent_id=agent.id)
    report(reset=[each.message_type for each in client.agents.messages.list(agent_id=agent.id, limit=10)])
    report(
        raised=[
            raised(lambda: client.agents.get("agent-00000000-0000-0000-0000-000000000000")),
            raised(lambda: client.agents.create(name="x")),
            raised(lambda: client.agents.create(name="bad/name!", llm_config=LLM)),
            raised(lambda: client.agents.create(llm_config=LLM, tool_ids=["tool-0"])),
            raised(lambda: client.agents.create(llm_config=LLM, source_ids=["source-0"])),
            raised(lambda: memory.update_block(agent_id=agent.id, block_label="human", value="x" * 6_000)),
            raised(lambda: memory.get_block(agent_id=agent.id, block_label="none")),
            raised(lambda: client.agents.messages.send(agent_id="agent-0", messages=texts("hi"))),
            raised(lambda: client.agents.messages.list(agent_id=agent.id, before="message-0")),
        ]
    )
    by_handles = client.agents.create(
        llm="p/words",
        embedding="p/vectors",
        embedding_chunk_size=300,
        initial_message_sequence=texts("hello"),
        tool_rules=[
            InitToolRule(tool_name="conversation_search"),
            ChildToolRule(tool_name="conversation_search", children=["send_message"]),
            ConditionalToolRule(tool_name="archival_memory_search", child_output_mapping={"no": "send_message"}),
            TerminalToolRule(tool_name="send_message", type="TerminalToolRule"),
        ],
    )
    embedding = by_handles.embedding_config
    report(
        begun=shown(client.agents.messages.list(agent_id=by_handles.id, limit=10)),
        rules=[[rule.type, rule.tool_name] for rule in by_handles.tool_rules],
        by_handles=[by_handles.llm_config.model, by_handles.llm_config.handle],
        embedding=[embedding.embedding_model, embedding.handle, embedding.embedding_chunk_size],
    )
    report(deleted=agent.id in str(client.agents.delete(agent.id)))
    report(gone=raised(lambda: client.agents.get(agent.id)))


main(*sys.argv[1:])
