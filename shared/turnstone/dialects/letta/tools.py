"""Tools of Letta's API."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, RootModel

from turnstone.dialects.letta.ids import bare, organization_id, shown, user_id
from turnstone.dialects.letta.message_requests import AFTER, LIMIT, TEXT, cursor_in, limit_in
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import AgentConfig, ToolGroup
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.agents import (
    ALL_TOOLS,
    TOOL_NAMES,
    LettaAgent,
    tool_id,
    toolgroups_of,
    tools_of,
    with_tool,
    without_tool,
)
from turnstone.domain.letta.tools import (
    RETURN_CHARACTERS,
    CustomTool,
    StoredTool,
    ToolQuery,
    toolgroup_of_custom,
    with_custom_tool,
    without_custom_tool,
)
from turnstone.domain.tools.base_tools import CORE_MEMORY, MULTI_AGENT
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.loop_arguments import with_loop_arguments
from turnstone.domain.turns.loop_policies import LETTA
from turnstone.domain.values.frozen import Frozen, JsonObject

CORE, CUSTOM = "letta_core", "custom"
OWN_KINDS = {CORE_MEMORY: "letta_memory_core", MULTI_AGENT: "letta_multi_agent_core"}  # by toolgroup
DEFAULT_ITEMS = 50
TOOLS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "cursor": {"description": "The id of the last tool of the part before.", "schema": TEXT},
    "after": AFTER,
    "limit": {"description": "How many tools to return at most.", "schema": LIMIT},
}
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
    toolgroup, definition = ALL_TOOLS[name]
    kind = OWN_KINDS.get(toolgroup, CORE)
    return LettaTool(
        id=id_of_tool(name),
        tool_type=kind,
        description=definition.description,
        source_type="python",
        organization_id=organization_id(tenant),
        name=name,
        tags=(kind,),
        source_code=None,
        json_schema=_schema_of(definition),
        return_char_limit=RETURN_CHARACTERS,
        created_by_id=user_id(principal),
        last_updated_by_id=user_id(principal),
    )


def custom_tool(tool: CustomTool, tenant: str, principal: str | None) -> LettaTool:
    """Return the tool of Python as the API shows it."""
    return LettaTool(
        id=shown("tool", tool.tool_id),
        tool_type=CUSTOM,
        description=tool.description,
        source_type="python",
        organization_id=organization_id(tenant),
        name=tool.name,
        tags=tool.tags,
        source_code=tool.source_code,
        json_schema=_schema_of(tool.definition),
        return_char_limit=tool.return_char_limit,
        created_by_id=user_id(principal),
        last_updated_by_id=user_id(principal),
    )


def stored_tool_of(stored: StoredTool, tenant: str) -> LettaTool:
    """Return the tool of the store as the API shows it."""
    return custom_tool(stored.tool, tenant, stored.stamp.owner)


def _schema_of(definition: ToolDef) -> JsonObject:
    (offered,) = with_loop_arguments((definition,), WITHOUT_THOUGHTS)
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": input_schema_of(offered),
    }


def id_of_tool(name: str) -> str:
    """Return the id of the base tool as the API shows it."""
    return shown("tool", tool_id(name))


def id_shown(found: str) -> str:
    """Return the id of a tool of either kind, a base tool by its name, as the API shows it."""
    return id_of_tool(found) if found in ALL_TOOLS else shown("tool", found)


def tools_shown(agent: LettaAgent, tenant: str) -> tuple[LettaTool, ...]:
    """Return the tools of the agent."""
    base = (base_tool(name, tenant, agent.owner) for name in tools_of(agent.config))
    return (*base, *(custom_tool(tool, tenant, agent.owner) for tool in agent.tools))


def tool_of_id(text: str) -> str:
    """Return the name of the base tool of that id, or the id of a tool of Python, which may be missing.

    Raises NotFound for a text that is no id.
    """
    found = bare("tool", text)
    if found in TOOL_NAMES:
        return TOOL_NAMES[found]
    try:
        return str(UUID(found))
    except ValueError:
        raise NotFound("tool", text) from None


def custom_id(text: str) -> str:
    """Return the id of a tool of Python. Raises NotFound, and InvalidRequest for a base tool."""
    found = tool_of_id(text)
    if found in ALL_TOOLS:
        raise InvalidRequest(f"the base tool {found!r} belongs to this server and can't be changed")
    return found


def toolgroups_of_ids(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the toolgroups of the tools of these ids, which may be missing. Raises NotFound as `tool_of_id`."""
    found = [tool_of_id(text) for text in texts]
    groups = (toolgroups_of([each]) if each in ALL_TOOLS else (toolgroup_of_custom(each),) for each in found)
    return tuple(dict.fromkeys(group for one in groups for group in one))


def with_tool_of_id(config: AgentConfig, text: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent with that tool, too. Raises NotFound."""
    found = tool_of_id(text)
    return with_tool(config, found) if found in ALL_TOOLS else with_custom_tool(config, found)


def without_tool_of_id(config: AgentConfig, text: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent without that tool. Raises NotFound."""
    found = tool_of_id(text)
    return without_tool(config, found) if found in ALL_TOOLS else without_custom_tool(config, found)


class LettaToolId(RootModel[Annotated[str, Field(examples=["tool-58c2e88e-4449-564b-9f6e-1b5426324b01"])]]):
    """The id of a tool."""


class LettaTools(RootModel[tuple[LettaTool, ...]]):
    """Tools in a list."""


def base_tools(caller: Caller) -> LettaTools:
    """Return the base tools."""
    return LettaTools(tuple(base_tool(name, caller.tenant, caller.principal) for name in ALL_TOOLS))


def tools_query(query: Mapping[str, list[str]]) -> ToolQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    cursor = cursor_in(query)
    return ToolQuery(limit_in(texts.get("limit"), DEFAULT_ITEMS), None if cursor is None else bare("tool", cursor))


def tool_shown(found: str | StoredTool, caller: Caller) -> LettaTool:
    """Return a tool of either kind, a base tool by its name, as the API shows it."""
    if isinstance(found, str):
        return base_tool(found, caller.tenant, caller.principal)
    return stored_tool_of(found, caller.tenant)


def tools_listed(found: Iterable[str | StoredTool], caller: Caller) -> LettaTools:
    """Return tools of both kinds, base tools by their names, as the API shows them."""
    return LettaTools(tuple(tool_shown(each, caller) for each in found))
