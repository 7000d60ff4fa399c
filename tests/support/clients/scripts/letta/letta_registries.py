"""Letta's own client, unmodified: tools of agents, blocks apart from agents, contexts, tags and embedding models.

Arguments: base URL up to and including /letta.
"""

import sys

from letta_client import CreateBlock, EmbeddingConfig, Letta, LlmConfig, MessageCreate
from letta_client.core.api_error import ApiError
from reporting import report

LLM = LlmConfig(
    model="words", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1/v1", context_window=8192
)
EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)


def status_of(act: object) -> int:
    try:
        act()
    except ApiError as error:
        return error.status_code
    raise AssertionError("nothing was raised")


def names_of(tools: list[object]) -> list[str]:
    return [tool.name for tool in tools]


def of_tools(client: Letta, agent_id: str) -> None:
    tools = client.agents.tools
    search = client.tools.get(client.tools.get_by_name("conversation_search"))
    removed = [tools.remove(agent_id=agent_id, tool_id=search.id) for _ in range(2)]
    added = [tools.add(agent_id=agent_id, tool_id=search.id) for _ in range(2)]
    chosen = client.agents.update(agent_id, tool_ids=[search.id])
    report(
        tool=[search.name, search.json_schema["name"]],
        removed=[len(agent.tools) for agent in removed],
        added=[names_of(agent.tools).count(search.name) for agent in added],
        chosen=names_of(chosen.tools),
        listed_tools=names_of(tools.list(agent_id)),
        missing_tools=[
            status_of(lambda: tools.add(agent_id=agent_id, tool_id="tool-0")),
            status_of(lambda: tools.remove(agent_id=agent_id, tool_id="tool-0")),
            status_of(lambda: client.tools.get("tool-0")),
            status_of(lambda: client.tools.get_by_name("none")),
            status_of(lambda: tools.list("agent-0")),
        ],
    )


def of_blocks(client: Letta, agent_id: str) -> None:
    blocks = client.blocks
    shared = blocks.create(label="team", value="We like tea.", limit=100)
    model = blocks.create(label="persona", value="I am Sam.", name="sam", is_template=True, metadata={"k": 1})
    other = client.agents.create(name="Ann", llm_config=LLM, embedding_config=EMBEDDING, block_ids=[shared.id])
    attached = [blocks.link_agent_memory_block(shared.id, agent_id=agent_id) for _ in range(2)]
    changed = blocks.update(shared.id, value="We like cake.")
    memory = client.agents.core_memory
    report(
        made=[shared.label, shared.limit, model.name, model.is_template, model.metadata],
        templates=[block.id == model.id for block in blocks.list()],
        listed=sorted(block.label for block in blocks.list(templates_only=False)),
        named=[block.label for block in blocks.list(name="sam")],
        labelled=[block.id == shared.id for block in blocks.list(label="team", templates_only=False)],
        attached=attached,
        changed=[changed.value, *(memory.get_block(each, "team").value for each in (agent_id, other.id))],
        taken=[
            status_of(lambda: memory.add_block(agent_id, label="team", value="x")),
            status_of(lambda: blocks.update(shared.id, label="human")),
            status_of(lambda: blocks.update(shared.id, value="x" * 101)),
        ],
    )
    blocks.unlink_agent_memory_block(shared.id, agent_id=agent_id)
    client.agents.delete(other.id)
    report(
        detached=[block.label for block in memory.get_blocks(agent_id)],
        survives=blocks.get(shared.id).value,
        deleted=blocks.delete(shared.id).id == shared.id,
        missing_blocks=[
            status_of(lambda: blocks.get(shared.id)),
            status_of(lambda: blocks.unlink_agent_memory_block(model.id, agent_id=agent_id)),
            status_of(lambda: blocks.link_agent_memory_block("block-0", agent_id=agent_id)),
            status_of(lambda: blocks.link_agent_memory_block(model.id, agent_id="agent-0")),
            status_of(lambda: client.agents.create(name="x", llm_config=LLM, block_ids=["block-0"])),
            status_of(lambda: client.agents.update(agent_id, block_ids=["block-0"])),
        ],
    )


def of_context(client: Letta, agent_id: str) -> None:
    before = client.agents.context.get(agent_id)
    client.agents.messages.send(agent_id=agent_id, messages=[MessageCreate(role="user", text="hello")])
    client.agents.archival_memory.create(agent_id=agent_id, text="The sky is blue.")
    after = client.agents.context.get(agent_id)
    listed = client.agents.messages.list(agent_id=agent_id, limit=100)
    report(
        before=[before.num_messages, before.num_recall_memory, before.num_archival_memory, before.num_tokens_messages],
        after=[after.num_messages, after.num_archival_memory],
        counted=after.num_recall_memory
        == client.agents.recall_memory.get_summary(agent_id).size
        == len({each.id for each in listed}),
        roles=[message.role for message in after.messages],
        same=[message.id for message in client.agents.core_memory.list_in_context(agent_id)]
        == [message.id for message in after.messages],
        sums=after.context_window_size_current
        == after.num_tokens_external_memory_summary
        + after.num_tokens_system
        + after.num_tokens_core_memory
        + after.num_tokens_summary_memory
        + after.num_tokens_functions_definitions
        + after.num_tokens_messages,
        core_memory=after.core_memory,
        functions=[each.function.name for each in after.functions_definitions],
        missing_context=status_of(lambda: client.agents.context.get("agent-0")),
    )


def main(base_url: str) -> None:
    client = Letta(base_url=base_url)
    human = [CreateBlock(label="human", value="name: Bob")]
    agent = client.agents.create(
        name="Sam", llm_config=LLM, embedding_config=EMBEDDING, memory_blocks=human, tags=["b", "a"], system="Be kind."
    )
    of_blocks(client, agent.id)
    of_context(client, agent.id)
    of_tools(client, agent.id)
    client.agents.create(name="Ann", llm_config=LLM, embedding_config=EMBEDDING, tags=["b", "Cat"])
    report(
        tags=client.tag.list_tags(),
        later_tags=client.tag.list_tags(cursor="Cat", limit=1),
        found_tags=client.tag.list_tags(query_text="CA"),
        embeddings=[[each.handle, each.embedding_dim] for each in client.models.list_embedding_models()],
    )


main(*sys.argv[1:])
