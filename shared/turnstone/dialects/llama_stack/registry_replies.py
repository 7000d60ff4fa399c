"""Answers of the Llama Stack API about what a server offers: models and tools.

Source: the types of `llama-stack-client` 0.2.12.
"""

from typing import Any, Literal

from turnstone.domain.model import Frozen
from turnstone.domain.tools import ToolDef, ToolParameter


class Model(Frozen):
    identifier: str
    provider_resource_id: str
    provider_id: str = "default"
    type: Literal["model"] = "model"
    model_type: Literal["llm"] = "llm"
    metadata: dict[str, Any] = {}


class ModelList(Frozen):
    data: tuple[Model, ...]


class Tool(Frozen):
    identifier: str
    description: str
    parameters: tuple[ToolParameter, ...]
    toolgroup_id: str
    provider_id: str = "builtin"
    provider_resource_id: str | None = None
    type: Literal["tool"] = "tool"
    metadata: dict[str, Any] | None = None


class ToolList(Frozen):
    data: tuple[Tool, ...]


def tool_reply(tool: ToolDef, toolgroup_id: str) -> Tool:
    return Tool(
        identifier=tool.name,
        description=tool.description or "",
        parameters=tool.parameters or (),
        toolgroup_id=toolgroup_id,
        metadata=tool.metadata,
    )
