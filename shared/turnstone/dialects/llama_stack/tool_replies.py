"""Answers of the Llama Stack API about toolgroups and tools.

Source: the types of `llama-stack-client` 0.2.12; beside them, what 0.3.5 knows a tool by (`name`, `input_schema`).
"""

from collections.abc import Iterable
from typing import Any, Literal

from turnstone.domain.content import Content, text_of
from turnstone.domain.model import Frozen
from turnstone.domain.registry import BUILTIN, Toolgroup
from turnstone.domain.tool_runs import ToolResult
from turnstone.domain.tool_schemas import input_schema_of, parameters_of
from turnstone.domain.tools import ToolDef, ToolParameter

TOOL_FAILED = 1  # clients tell failures by any code, and by the message


class ToolgroupList(Frozen):
    data: tuple[Toolgroup, ...]


class Tool(Frozen):
    identifier: str
    name: str
    description: str
    parameters: tuple[ToolParameter, ...]
    input_schema: dict[str, Any]
    toolgroup_id: str
    provider_id: str = BUILTIN
    provider_resource_id: str | None = None
    type: Literal["tool"] = "tool"
    metadata: dict[str, Any] | None = None


class ToolList(Frozen):
    data: tuple[Tool, ...]


class RuntimeTool(Frozen):
    """A tool that runs on the server, as a model is told of it."""

    name: str
    description: str | None
    parameters: tuple[ToolParameter, ...] | None
    metadata: dict[str, Any] | None
    input_schema: dict[str, Any]
    toolgroup_id: str


class RuntimeToolList(Frozen):
    data: tuple[RuntimeTool, ...]


class ToolRun(Frozen):
    """What a tool answered that was run outside of any turn."""

    content: Content | None
    error_code: int | None = None
    error_message: str | None = None
    metadata: dict[str, Any] | None = None


def tool_run_reply(result: ToolResult, *, has_failed: bool) -> ToolRun:
    metadata = None if result.metadata is None else dict(result.metadata)
    if not has_failed:
        return ToolRun(content=result.content, metadata=metadata)
    said = text_of(result.content)
    return ToolRun(content=said, error_code=TOOL_FAILED, error_message=said, metadata=metadata)


def tool_reply(group: Toolgroup, tool: ToolDef) -> Tool:
    return Tool(
        identifier=tool.name,
        name=tool.name,
        description=tool.description or "",
        parameters=parameters_of(tool),
        input_schema=input_schema_of(tool),
        toolgroup_id=group.identifier,
        provider_id=group.provider_id,
        provider_resource_id=tool.name,
        metadata=tool.metadata,
    )


def tool_list(groups: Iterable[tuple[Toolgroup, Iterable[ToolDef]]]) -> ToolList:
    return ToolList(data=tuple(tool_reply(group, tool) for group, tools in groups for tool in tools))


def runtime_tool_list(groups: Iterable[tuple[Toolgroup, Iterable[ToolDef]]]) -> RuntimeToolList:
    return RuntimeToolList(
        data=tuple(_runtime_tool(group.identifier, tool) for group, tools in groups for tool in tools)
    )


def _runtime_tool(toolgroup_id: str, tool: ToolDef) -> RuntimeTool:
    return RuntimeTool(
        name=tool.name,
        description=tool.description,
        parameters=parameters_of(tool),
        metadata=tool.metadata,
        input_schema=input_schema_of(tool),
        toolgroup_id=toolgroup_id,
    )
