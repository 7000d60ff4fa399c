"""Tools of a response, and the choice among them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.agents.agents import MAX_TOOLS
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import JsonObject, Many
from turnstone.domain.values.numbers import Flag
from turnstone.domain.values.object_schemas import ObjectSchema

NOT_SERVED = "tools of the type {kind} are not served here; use function"


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


def _served(fields: Any) -> Any:
    kind = fields.get("type") if isinstance(fields, dict) else None
    if isinstance(kind, str) and kind != "function":
        raise ValueError("type: " + NOT_SERVED.format(kind=repr(kind)[:80]))
    return fields


AnyTool = Annotated[DeclaredFunction, BeforeValidator(_served)]
ResponseTools = Annotated[Many[AnyTool], Field(max_length=MAX_TOOLS)]


class ChosenFunction(StrictRequest):
    type: Literal["function"]
    name: str


class AllowedTools(StrictRequest):
    """The tools that may be called, of those that are declared."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[Many[ChosenFunction], Field(min_length=1)]


def _served_choice(choice: Any) -> Any:
    kind = choice.get("type") if isinstance(choice, dict) else None
    if isinstance(kind, str) and kind not in ("function", "allowed_tools"):
        raise ValueError("type: " + NOT_SERVED.format(kind=repr(kind)[:80]))
    return choice


ToolChoiceField = Annotated[
    Literal["none", "auto", "required"] | Annotated[ChosenFunction | AllowedTools, Field(discriminator="type")],
    BeforeValidator(_served_choice),
]


def allowed(
    tools: Sequence[DeclaredFunction], choice: str | ChosenFunction | AllowedTools
) -> tuple[tuple[DeclaredFunction, ...], str]:
    """Return the tools that may be called, and the choice among them. Raises ValueError for one that is missing."""
    names = {tool.name for tool in tools}
    chosen = () if isinstance(choice, str) else (choice,) if isinstance(choice, ChosenFunction) else choice.tools
    for each in chosen:
        if each.name not in names:
            raise ValueError(f"tool_choice: names {each.name!r}, but there is no such tool in tools")
    if isinstance(choice, AllowedTools):
        permitted = {each.name for each in choice.tools}
        return tuple(tool for tool in tools if tool.name in permitted), choice.mode
    return tuple(tools), choice.name if isinstance(choice, ChosenFunction) else choice


def tool_extras(tools: Sequence[DeclaredFunction]) -> Mapping[str, Any]:
    """Return the fields of tools that only servers of OpenAI's API take, by the tools' names."""
    return {tool.name: {"function": {"strict": True}} for tool in tools if tool.strict}
