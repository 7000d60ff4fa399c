"""Tools of a response, and the choice among them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from turnstone.dialects.openai.responses.hosted_tools import (
    FileSearch,
    HostedCode,
    ImageGeneration,
    WebSearch,
)
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.agents.agents import MAX_TOOLS
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
SERVED = ("function", *HOSTED)
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


SomeHosted = FileSearch | WebSearch | HostedCode | ImageGeneration
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


ChosenTool = Annotated[ChosenFunction | ChosenHosted, Field(discriminator="type")]


class AllowedTools(StrictRequest):
    """The tools that may be called, of those that are declared."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[Many[ChosenTool], Field(min_length=1)]


def _served_choice(choice: Any) -> Any:
    return _refuse_unserved(choice, (*SERVED, "allowed_tools"))


ToolChoice = str | ChosenFunction | ChosenHosted | AllowedTools
ToolChoiceField = Annotated[
    Literal["none", "auto", "required"]
    | Annotated[ChosenFunction | ChosenHosted | AllowedTools, Field(discriminator="type")],
    BeforeValidator(_served_choice),
]


class OfferedTools(NamedTuple):
    """The tools that may be called, and the choice among them: auto, required, none or the model's name of one."""

    functions: tuple[DeclaredFunction, ...]
    hosted: tuple[SomeHosted, ...]
    choice: str


def refuse_clashes(tools: Sequence[SomeTool]) -> None:
    """Raise ValueError for two tools of one name."""
    names = [tool.name if isinstance(tool, DeclaredFunction) else HOSTED[tool.type] for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"tools: two are named {name!r}; rename one, or leave it out")


def offered(tools: Sequence[SomeTool], choice: ToolChoice) -> OfferedTools:
    """Return the tools that may be called. Raises ValueError for a choice of one that is missing."""
    chosen = () if isinstance(choice, str) else choice.tools if isinstance(choice, AllowedTools) else (choice,)
    for each in chosen:
        if not any(each.is_of(tool) for tool in tools):
            raise ValueError(f"tool_choice: names {each.offered_name!r}, but there is no such tool in tools")
    if isinstance(choice, AllowedTools):
        tools = [tool for tool in tools if any(each.is_of(tool) for each in choice.tools)]
    functions = tuple(tool for tool in tools if isinstance(tool, DeclaredFunction))
    hosted = tuple(tool for tool in tools if not isinstance(tool, DeclaredFunction))
    if isinstance(choice, str):
        return OfferedTools(functions, hosted, choice)
    return OfferedTools(functions, hosted, choice.mode if isinstance(choice, AllowedTools) else choice.offered_name)


def tool_extras(tools: Iterable[DeclaredFunction]) -> Mapping[str, Any]:
    """Return the fields of tools that only servers of OpenAI's API take, by the tools' names."""
    return {tool.name: {"function": {"strict": True}} for tool in tools if tool.strict}
