"""Translate an agent's tool definitions of September 2024 to tools of the server and of the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.agent_tools import (
    BraveSearchTool,
    CodeInterpreterTool,
    FunctionCallTool,
    PhotogenTool,
    WolframAlphaTool,
)
from turnstone.domain.tools.memory_tools import MemoryTool
from turnstone.domain.tools.tool_runs import OfferedTool, ToolOffer, ToolOptions
from turnstone.domain.tools.tools import ToolDef, ToolParameter

if TYPE_CHECKING:
    from pydantic import SecretStr

    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.domain.tools.agent_tools import AgentTool, CallableTool

NO_GROUP = ""
GROUPS = {
    "brave_search": "builtin::websearch",
    "wolfram_alpha": "builtin::wolfram_alpha",
    "photogen": "builtin::photogen",
    "code_interpreter": "builtin::code_interpreter",
}
RUNS_AS = {"brave_search": "web_search"}
DESCRIPTIONS = {
    "brave_search": ("Search the web.", "query", "What to search for."),
    "wolfram_alpha": ("Have a computation done, or a fact looked up.", "query", "The question, in words or symbols."),
    "photogen": ("Make an image.", "query", "What the image shows."),
    "code_interpreter": ("Run code in Python and see what it prints.", "code", "The code."),
}


def translated_tools(config: AgentConfig) -> ToolOffer:
    """Return the defined tools in the current form; a server tool with a URL of its own is in no toolgroup.

    The memory tool is none: no model calls it. Raises InvalidRequest for names that clash.
    """
    refuse_clashing_names(config)
    callable_tools = [tool for tool in config.tools if not isinstance(tool, MemoryTool)]
    return ToolOffer(
        client={name_of(tool): definition_of(tool) for tool in callable_tools if _is_clients(tool)},
        server={name_of(tool): _offered(tool) for tool in callable_tools if not _is_clients(tool)},
    )


def memory_tool_of(config: AgentConfig) -> MemoryTool | None:
    """Return the tool that reads memory before the first inference, None without one."""
    return next((tool for tool in config.tools if isinstance(tool, MemoryTool)), None)


def refuse_clashing_names(config: AgentConfig) -> None:
    """Raise InvalidRequest, naming the position, for a defined tool with the name of another or of a client tool."""
    taken = {tool.name: "client_tools" for tool in config.client_tools}
    for index, tool in enumerate(config.tools):
        name = name_of(tool)
        if name in taken:
            field = "function_name" if isinstance(tool, FunctionCallTool) else "type"
            if isinstance(tool, MemoryTool) and taken[name] == "tools":
                message = "an agent has one tool of the type 'memory'; name all its banks in the first one"
                raise InvalidRequest(message, ("tools", index, field))
            message = f"two tools are named {name!r}: this one, and one of {taken[name]}; rename one"
            raise InvalidRequest(message, ("tools", index, field))
        taken[name] = "tools"


def name_of(tool: AgentTool) -> str:
    """Return the tool's name for the model."""
    return tool.function_name if isinstance(tool, FunctionCallTool) else tool.type


def definition_of(tool: CallableTool) -> ToolDef:
    """Return the tool's definition for the model."""
    if isinstance(tool, FunctionCallTool):
        return ToolDef(name=tool.function_name, description=tool.description, parameters=tuple(_parameters(tool)))
    does, name, description_text = DESCRIPTIONS[tool.type]
    parameter = ToolParameter(name=name, parameter_type="string", description=description_text)
    return ToolDef(name=tool.type, description=does, parameters=(parameter,))


def _parameters(tool: FunctionCallTool) -> Iterator[ToolParameter]:
    for name, defined in tool.parameters.items():
        yield ToolParameter(
            name=name,
            parameter_type=defined.param_type,
            description=defined.description or "",
            required=defined.required,
            default=defined.default,
        )


def _is_clients(tool: CallableTool) -> bool:
    if tool.remote_execution is not None:
        return False
    if isinstance(tool, CodeInterpreterTool):
        return not tool.enable_inline_code_execution
    return isinstance(tool, FunctionCallTool)


def _offered(tool: CallableTool) -> OfferedTool:
    is_elsewhere = tool.remote_execution is not None
    return OfferedTool(
        definition=definition_of(tool),
        fixed_arguments={},
        toolgroup=NO_GROUP if is_elsewhere else GROUPS[tool.type],
        runs_as=None if is_elsewhere else RUNS_AS.get(tool.type),
        options=_options(tool),
        input_shields=tool.input_shields,
        output_shields=tool.output_shields,
    )


def _options(tool: CallableTool) -> ToolOptions:
    elsewhere = tool.remote_execution
    match tool:
        case BraveSearchTool():
            return ToolOptions(engine=tool.engine, api_key=_plain(tool.api_key), remote_execution=elsewhere)
        case WolframAlphaTool():
            return ToolOptions(api_key=_plain(tool.api_key), remote_execution=elsewhere)
        case PhotogenTool() | CodeInterpreterTool() | FunctionCallTool():
            return ToolOptions(remote_execution=elsewhere)


def _plain(key: SecretStr | None) -> str | None:
    """Return the key's text; empty counts as none, because clients of that time had to send one."""
    return key.get_secret_value() or None if key is not None else None
