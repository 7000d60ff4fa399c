"""Tools of a response, and the choice among them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from turnstone.dialects.openai.responses.hosted_tools import (
    FileSearch,
    HostedCode,
    ImageGeneration,
    McpTool,
    WebSearch,
)
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.agents.agents import MAX_TOOLS, ToolGroupWithArgs
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import JsonObject, Many
from turnstone.domain.values.numbers import Flag
from turnstone.domain.values.object_schemas import ObjectSchema

# kinds of tools that the server runs, with the models' names of them
HOSTED: Mapping[str, str] = {
    "file_search": "file_search",
    "web_search": "brave_search",
    "web_search_2025_08_26": "brave_search",
    "web_search_preview": "brave_search",
    "web_search_preview_2025_03_11": "brave_search",
    "code_interpreter": "code_interpreter",
    "image_generation": "photogen",
}
SERVED = ("function", *HOSTED, "mcp")
MOST_SECRET_BYTES = 16 * 1024  # beside the record of the turn, whose body may take nearly all the room
NOT_SERVED = "tools of the type {kind} are not served here; those are {served}"


class DeclaredFunction(StrictRequest):
    type: Literal["function"]
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: ObjectSchema | None = None
    strict: Flag | None = None

    def to_tool(self) -> ToolDef:
        return ToolDef(name=self.name, description=self.description, input_schema=self.parameters)

    def to_echo(self) -> JsonObject:
        """Return the tool as a response shows it."""
        return {**self.model_dump(mode="json"), "strict": bool(self.strict)}


def _refuse_unserved(fields: Any, served: Iterable[str]) -> Any:
    kind = fields.get("type") if isinstance(fields, dict) else None
    if isinstance(kind, str) and kind not in served:
        raise ValueError("type: " + NOT_SERVED.format(kind=repr(kind)[:80], served=", ".join(SERVED)))
    return fields


def _served(fields: Any) -> Any:
    return _refuse_unserved(fields, SERVED)


SomeHosted = FileSearch | WebSearch | HostedCode | ImageGeneration | McpTool
SomeTool = DeclaredFunction | SomeHosted
AnyTool = Annotated[Annotated[SomeTool, Field(discriminator="type")], BeforeValidator(_served)]
ResponseTools = Annotated[Many[AnyTool], Field(max_length=MAX_TOOLS)]


class ChosenFunction(StrictRequest):
    type: Literal["function"]
    name: str

    def is_of(self, tool: SomeTool) -> bool:
        """Return whether the choice names the tool."""
        return isinstance(tool, DeclaredFunction) and tool.name == self.name

    @property
    def offered_name(self) -> str:
        """The model's name of the tool."""
        return self.name


class ChosenHosted(StrictRequest):
    type: Literal[
        "file_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "code_interpreter",
        "image_generation",
    ]

    def is_of(self, tool: SomeTool) -> bool:
        """Return whether the choice names the tool."""
        return HOSTED.get(tool.type) == HOSTED[self.type]

    @property
    def offered_name(self) -> str:
        """The model's name of the tool."""
        return HOSTED[self.type]


class ChosenMcp(StrictRequest):
    """The tool of that name of an MCP server, or any of its tools."""

    type: Literal["mcp"]
    server_label: str
    name: Annotated[str, Field(min_length=1)] | None = None

    def is_of(self, tool: SomeTool) -> bool:
        """Return whether the choice names the tool."""
        return isinstance(tool, McpTool) and tool.server_label == self.server_label

    @property
    def offered_name(self) -> str:
        """The model's name of the tool, or that any is required: then it is offered those of the server only."""
        return self.name or "required"


ChosenTool = Annotated[ChosenFunction | ChosenHosted | ChosenMcp, Field(discriminator="type")]


class AllowedTools(StrictRequest):
    """The tools that may be called, of those that are declared."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[Many[ChosenTool], Field(min_length=1)]


def _served_choice(choice: Any) -> Any:
    return _refuse_unserved(choice, (*SERVED, "allowed_tools"))


ToolChoice = str | ChosenFunction | ChosenHosted | ChosenMcp | AllowedTools
ToolChoiceField = Annotated[
    Literal["none", "auto", "required"]
    | Annotated[ChosenFunction | ChosenHosted | ChosenMcp | AllowedTools, Field(discriminator="type")],
    BeforeValidator(_served_choice),
]


class OfferedTools(NamedTuple):
    """The tools that may be called.

    Attributes:
        choice: among them: auto, required, none or the model's name of one.
        only: the names of those tools of MCP servers that may be called, by the servers' labels; by default all.
    """

    functions: tuple[DeclaredFunction, ...]
    hosted: tuple[SomeHosted, ...]
    choice: str
    only: Mapping[str, tuple[str, ...]] = {}

    @property
    def toolgroups(self) -> tuple[tuple[SomeHosted, ToolGroupWithArgs], ...]:
        """The toolgroups of the hosted tools, each with the tool that it is of."""
        return tuple((tool, toolgroup) for tool in self.hosted for toolgroup in tool.to_toolgroups(self.only))


def refuse_clashes(tools: Sequence[SomeTool]) -> None:
    """Raise ValueError for two tools of one name, and for more secrets than a turn keeps."""
    servers = [tool for tool in tools if isinstance(tool, McpTool)]
    if sum(len(text.encode("utf-8", "surrogatepass")) for tool in servers for text in tool.secrets) > MOST_SECRET_BYTES:
        raise ValueError(f"tools: addresses and headers of MCP servers are longer than {MOST_SECRET_BYTES} bytes")
    labels = [tool.server_label for tool in servers]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise ValueError(f"tools: two have the server_label {label!r}; rename one, or leave it out")
    others = (tool for tool in tools if not isinstance(tool, McpTool))
    names = [tool.name if isinstance(tool, DeclaredFunction) else HOSTED[tool.type] for tool in others]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"tools: two are named {name!r}; rename one, or leave it out")


def offered(tools: Sequence[SomeTool], choice: ToolChoice) -> OfferedTools:
    """Return the tools that may be called. Raises ValueError for a choice of one that is missing."""
    chosen = () if isinstance(choice, str) else choice.tools if isinstance(choice, AllowedTools) else (choice,)
    for each in chosen:
        if not any(each.is_of(tool) for tool in tools):
            named = each.server_label if isinstance(each, ChosenMcp) else each.offered_name
            raise ValueError(f"tool_choice: names {named!r}, but there is no such tool in tools")
    only: dict[str, tuple[str, ...]] = {}
    if isinstance(choice, AllowedTools):
        tools = [tool for tool in tools if any(each.is_of(tool) for each in choice.tools)]
        only = _only_named(choice.tools)
    elif isinstance(choice, ChosenMcp) and choice.name is None:
        tools = [tool for tool in tools if choice.is_of(tool)]
    functions = tuple(tool for tool in tools if isinstance(tool, DeclaredFunction))
    hosted = tuple(tool for tool in tools if not isinstance(tool, DeclaredFunction))
    if isinstance(choice, str):
        return OfferedTools(functions, hosted, choice)
    if isinstance(choice, AllowedTools):
        return OfferedTools(functions, hosted, choice.mode, only)
    return OfferedTools(functions, hosted, choice.offered_name)


def _only_named(chosen: Iterable[ChosenFunction | ChosenHosted | ChosenMcp]) -> dict[str, tuple[str, ...]]:
    """Return the chosen names of MCP servers' tools, by the servers of which not every tool is chosen."""
    of_servers = [each for each in chosen if isinstance(each, ChosenMcp)]
    whole = {each.server_label for each in of_servers if each.name is None}
    only: dict[str, tuple[str, ...]] = {}
    for each in of_servers:
        if each.name is not None and each.server_label not in whole:
            only[each.server_label] = (*only.get(each.server_label, ()), each.name)
    return only


def tool_extras(tools: Iterable[DeclaredFunction]) -> Mapping[str, Any]:
    """Return the fields of tools that only servers of OpenAI's API take, by the tools' names."""
    return {tool.name: {"function": {"strict": True}} for tool in tools if tool.strict}
