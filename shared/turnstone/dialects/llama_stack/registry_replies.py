"""Answers of the Llama Stack API about what a server offers.

Source: the types of `llama-stack-client` 0.2.12.
"""

from collections.abc import Iterable
from typing import Any, Literal

from turnstone.domain.model import Frozen
from turnstone.domain.registry import BUILTIN, Model, Provider, Shield, Toolgroup
from turnstone.domain.tools import ToolDef, ToolParameter


class ModelList(Frozen):
    data: tuple[Model, ...]


class ProviderList(Frozen):
    data: tuple[Provider, ...]


class ToolgroupList(Frozen):
    data: tuple[Toolgroup, ...]


class ShieldList(Frozen):
    data: tuple[Shield, ...]


class Tool(Frozen):
    identifier: str
    description: str
    parameters: tuple[ToolParameter, ...]
    toolgroup_id: str
    provider_id: str = BUILTIN
    provider_resource_id: str | None = None
    type: Literal["tool"] = "tool"
    metadata: dict[str, Any] | None = None


class ToolList(Frozen):
    data: tuple[Tool, ...]


class ToolDefList(Frozen):
    data: tuple[ToolDef, ...]


def tool_reply(toolgroup_id: str, tool: ToolDef) -> Tool:
    return Tool(
        identifier=tool.name,
        description=tool.description or "",
        parameters=tool.parameters or (),
        toolgroup_id=toolgroup_id,
        metadata=tool.metadata,
    )


def tool_list(tools: Iterable[tuple[str, ToolDef]]) -> ToolList:
    return ToolList(data=tuple(tool_reply(group, tool) for group, tool in tools))
