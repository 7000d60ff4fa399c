"""Tools of Python that a tenant keeps, and the environment variables with which an agent runs them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

from pydantic import Field, SecretStr

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import AgentConfig, ToolGroup, toolgroup_name
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import Frozen, JsonObject

TOOL_KIND = "tool"
GROUP = "letta::custom"
MOST_TOOLS = 64  # of an agent
MOST_SOURCE = 100_000
RETURN_CHARACTERS = 6_000
MOST_RETURN = 1_000_000
MOST_VARIABLES = 64
MOST_VARIABLE_CHARACTERS = 4_096
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
ReturnLimit = Annotated[int, Field(ge=1, le=MOST_RETURN)]


class CustomTool(Frozen):
    """A tool of Python.

    Attributes:
        name: of the function that a call runs, unique among the tools of its tenant.
        parameters: the JSON schema of its arguments.
        takes_agent_state: whether the function has the parameter `agent_state`.
        return_char_limit: of the text of its result.
    """

    tool_id: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    source_code: str
    parameters: JsonObject = {}
    takes_agent_state: bool = False
    return_char_limit: int = RETURN_CHARACTERS

    @property
    def definition(self) -> ToolDef:
        """The tool as a model is offered it."""
        return ToolDef(name=self.name, description=self.description, input_schema=self.parameters)


class StoredTool(Frozen):
    """A tool with the data that no reader of tools gets.

    Attributes:
        order: its position in the list of its tenant.
        stamp: the owner and the access list.
        rev: revision of the record this was read from, 0 before it is stored.
    """

    tool: CustomTool
    order: str
    stamp: Ownership = Ownership.model_construct()
    rev: int = 0


class ToolQuery(NamedTuple):
    """The requested part of the list of tools; `after` is the id of the last tool of the part before."""

    limit: int
    after: str | None = None


class EnvironmentVariable(Frozen):
    """A variable in the environment of an agent's tools of Python."""

    key: str
    value: SecretStr
    created_at: datetime
    updated_at: datetime


def toolgroup_of_custom(tool_id: str) -> str:
    """Return the toolgroup of the tool alone."""
    return f"{GROUP}/{tool_id}"


def custom_tool_in(toolgroup: ToolGroup) -> str | None:
    """Return the id of the tool of Python that the toolgroup names, None for another toolgroup."""
    group, _, tool_id = toolgroup_name(toolgroup).partition("/")
    return tool_id if group == GROUP else None


def custom_tools_of(toolgroups: Iterable[ToolGroup]) -> tuple[str, ...]:
    """Return the ids of the tools of Python among the toolgroups."""
    found = (custom_tool_in(toolgroup) for toolgroup in toolgroups)
    return tuple(dict.fromkeys(tool_id for tool_id in found if tool_id is not None))


def with_custom_tool(config: AgentConfig, tool_id: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent with that tool, too."""
    has_it = tool_id in custom_tools_of(config.toolgroups)
    return config.toolgroups if has_it else (*config.toolgroups, toolgroup_of_custom(tool_id))


def without_custom_tool(config: AgentConfig, tool_id: str) -> tuple[ToolGroup, ...]:
    """Return the toolgroups of an agent without that tool."""
    return tuple(each for each in config.toolgroups if custom_tool_in(each) != tool_id)


def refuse_many_tools(tool_ids: Sequence[str]) -> None:
    """Raise InvalidRequest for more tools of Python than an agent may have."""
    if len(tool_ids) > MOST_TOOLS:
        raise InvalidRequest(f"tool_ids: an agent has at most {MOST_TOOLS} tools of Python", ("tool_ids",))


def variables_of(
    given: Mapping[str, str], before: Sequence[EnvironmentVariable], now: datetime
) -> tuple[EnvironmentVariable, ...]:
    """Return the variables of these values in place of those before."""
    earlier = {each.key: each for each in before}

    def variable(key: str, value: str) -> EnvironmentVariable:
        found = earlier.get(key)
        if found is not None and found.value.get_secret_value() == value:
            return found
        created_at = now if found is None else found.created_at
        return EnvironmentVariable(key=key, value=SecretStr(value), created_at=created_at, updated_at=now)

    return tuple(variable(key, value) for key, value in given.items())


def values_of(variables: Iterable[EnvironmentVariable]) -> dict[str, str]:
    """Return the values of the variables in plain text."""
    return {each.key: each.value.get_secret_value() for each in variables}
