"""Answers of the Llama Stack API about toolgroups and tools.

Source: the types of `llama-stack-client` 0.2.12; next to them, the fields of 0.3.5 (`name`, `input_schema`,
`output_schema`), and of 0.1.9 (`tool_host`). Both paths that list tools return the same objects.
"""

from collections.abc import Iterable
from typing import Any, Literal

from turnstone.domain.registry.registry import BUILTIN, MCP, Toolgroup
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.tools.tool_schemas import input_schema_of, parameters_of
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.values.content import Content, items_of, text_of
from turnstone.domain.values.frozen import Frozen

JSON_LINES = "application/jsonl"
TOOL_WORKED = 0
TOOL_FAILED = 1  # clients detect failures by any code, and by the message


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
    output_schema: dict[str, Any] | None = None
    tool_host: Literal["distribution", "model_context_protocol"] = "distribution"


class ToolList(Frozen):
    data: tuple[Tool, ...]


class ToolRun(Frozen):
    """The answer of a tool run outside turns."""

    content: Content | None
    error_code: int | None = None
    error_message: str | None = None
    metadata: dict[str, Any] | None = None


def tool_run_reply(group: Toolgroup, result: ToolResult, *, has_failed: bool) -> ToolRun:
    """Return a tool's answer as a reply; an MCP server's is a list, and states that it did not fail."""
    metadata = None if result.metadata is None else dict(result.metadata)
    is_mcp = group.provider_id == MCP
    content = items_of(result.content) if is_mcp else result.content
    if not has_failed:
        return ToolRun(content=content, error_code=TOOL_WORKED if is_mcp else None, metadata=metadata)
    return ToolRun(content=content, error_code=TOOL_FAILED, error_message=text_of(result.content), metadata=metadata)


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
        output_schema=tool.output_schema,
        tool_host="model_context_protocol" if group.provider_id == MCP else "distribution",
    )


def tool_list(groups: Iterable[tuple[Toolgroup, Iterable[ToolDef]]]) -> ToolList:
    return ToolList(data=tuple(tool_reply(group, tool) for group, tools in groups for tool in tools))


def tool_lines(groups: Iterable[tuple[Toolgroup, Iterable[ToolDef]]]) -> bytes:
    """Return the tools as a list for clients of 0.1 and 0.2.0: one object in each line."""
    return b"".join(tool.model_dump_json().encode() + b"\n" for tool in tool_list(groups).data)
