"""Agents of Letta's API as it shows them."""

from pydantic import RootModel

from turnstone.dialects.letta.blocks import LettaMemory, memory_of
from turnstone.dialects.letta.environment import AgentVariable, variables_shown
from turnstone.dialects.letta.ids import message_id, organization_id, shown, user_id
from turnstone.dialects.letta.sources import EMBEDDING_DEFAULTS, LettaSource, source_of
from turnstone.dialects.letta.tool_rules import WireToolRule, wire_rules
from turnstone.dialects.letta.tools import LettaTool, tools_shown
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.values.frozen import Frozen, JsonObject

LLM_DEFAULTS = {
    "model": "",
    "model_endpoint_type": "openai",
    "model_endpoint": None,
    "model_wrapper": None,
    "context_window": 8_192,
    "put_inner_thoughts_in_kwargs": True,
    "handle": None,
}


class AgentState(Frozen):
    """An agent."""

    created_by_id: str | None
    last_updated_by_id: str | None
    created_at: str
    updated_at: str
    id: str
    name: str
    tool_rules: tuple[WireToolRule, ...] | None
    message_ids: tuple[str, ...]
    system: str
    agent_type: str
    llm_config: JsonObject
    embedding_config: JsonObject
    organization_id: str
    description: str | None
    metadata_: JsonObject | None
    memory: LettaMemory
    tools: tuple[LettaTool, ...]
    sources: tuple[LettaSource, ...]
    tags: tuple[str, ...]
    tool_exec_environment_variables: tuple[AgentVariable, ...]


class AgentStates(RootModel[tuple[AgentState, ...]]):
    """Agents in the order of their creation."""


class AgentDeleted(Frozen):
    """The confirmation of a deletion."""

    message: str


def state_of(agent: LettaAgent, tenant: str) -> AgentState:
    """Return the agent as the API shows it."""
    fields, config = agent.fields, agent.config
    llm = {**LLM_DEFAULTS, **fields.llm_config, "model": fields.llm_config.get("model") or config.model}
    return AgentState(
        created_by_id=user_id(agent.owner),
        last_updated_by_id=user_id(agent.owner),
        created_at=agent.created_at.isoformat(),
        updated_at=(fields.updated_at or agent.created_at).isoformat(),
        id=shown("agent", agent.agent_id),
        name=config.name or agent.agent_id,
        tool_rules=None if fields.tool_rules is None else wire_rules(fields.tool_rules),
        message_ids=(message_id(agent.agent_id, 0),),
        system=config.instructions,
        agent_type=fields.agent_type,
        llm_config=llm,
        embedding_config={**EMBEDDING_DEFAULTS, **(fields.embedding_config or {})},
        organization_id=organization_id(tenant),
        description=fields.description,
        metadata_=fields.metadata,
        memory=memory_of(agent, tenant),
        tools=tools_shown(agent, tenant),
        sources=tuple(source_of(each, tenant) for each in agent.sources),
        tags=fields.tags,
        tool_exec_environment_variables=variables_shown(agent, tenant),
    )
