"""Tools of Letta's API."""

from typing import Annotated, Any

from pydantic import Field, RootModel

from turnstone.dialects.letta.ids import bare, organization_id, shown, user_id
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.letta.agents import ALL_TOOLS, MULTI_AGENT_TOOLS, TOOL_NAMES, LettaAgent, tool_id, tools_of
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.turns.loop_arguments import with_loop_arguments
from turnstone.domain.turns.loop_policies import LETTA
from turnstone.domain.values.frozen import Frozen, JsonObject

RETURN_CHARACTERS = 6_000
CORE, MULTI_AGENT_CORE = "letta_core", "letta_multi_agent_core"
WITHOUT_THOUGHTS = LETTA.model_copy(update={"loop_arguments": ()})


class LettaTool(Frozen):
    """A tool."""

    id: str
    tool_type: str
    description: str | None
    source_type: str | None
    organization_id: str
    name: str
    tags: tuple[str, ...]
    source_code: str | None
    json_schema: JsonObject | None
    return_char_limit: int
    created_by_id: str | None
    last_updated_by_id: str | None


def base_tool(name: str, tenant: str, principal: str | None) -> LettaTool:
    """Return the base tool of that name."""
    definition = ALL_TOOLS[name][1]
    kind = MULTI_AGENT_CORE if name in MULTI_AGENT_TOOLS else CORE
    (offered,) = with_loop_arguments((definition,), WITHOUT_THOUGHTS)
    schema: dict[str, Any] = input_schema_of(offered)
    return LettaTool(
        id=id_of_tool(name),
        tool_type=kind,
        description=definition.description,
        source_type="python",
        organization_id=organization_id(tenant),
        name=name,
        tags=(kind,),
        source_code=None,
        json_schema={"name": name, "description": definition.description, "parameters": schema},
        return_char_limit=RETURN_CHARACTERS,
        created_by_id=user_id(principal),
        last_updated_by_id=user_id(principal),
    )


def id_of_tool(name: str) -> str:
    """Return the id of the base tool as the API shows it."""
    return shown("tool", tool_id(name))


def tools_shown(agent: LettaAgent, tenant: str) -> tuple[LettaTool, ...]:
    """Return the tools of the agent."""
    return tuple(base_tool(name, tenant, agent.owner) for name in tools_of(agent.config))


def base_tool_named(name: str) -> str:
    """Return the name of a tool of this server. Raises NotFound for any other."""
    if name not in ALL_TOOLS:
        raise NotFound("tool", name)
    return name


def tool_of_id(text: str) -> str:
    """Return the name of the tool of that id. Raises NotFound for any other."""
    name = TOOL_NAMES.get(bare("tool", text))
    if name is None:
        raise NotFound("tool", text)
    return name


class LettaToolId(RootModel[Annotated[str, Field(examples=["tool-58c2e88e-4449-564b-9f6e-1b5426324b01"])]]):
    """The id of a tool."""


class LettaTools(RootModel[tuple[LettaTool, ...]]):
    """Tools in a list."""


def base_tools(caller: Caller) -> LettaTools:
    """Return the base tools."""
    return LettaTools(tuple(base_tool(name, caller.tenant, caller.principal) for name in ALL_TOOLS))
