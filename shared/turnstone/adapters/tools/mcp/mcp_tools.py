"""Tools listed by an MCP server, converted for models."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnstone.domain.tools.inline_toolgroups import ANNOTATIONS
from turnstone.domain.tools.tools import ToolDef

if TYPE_CHECKING:
    from mcp_types import Tool

log = logging.getLogger(__name__)
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 8_192
MAX_SCHEMA_CHARS = 65_536
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class McpListing:
    """A server's listing.

    Attributes:
        names: the server's name of each tool, by its name for models.
    """

    tools: tuple[ToolDef, ...]
    names: Mapping[str, str]


def listing_of(tools: Iterable[Tool], endpoint: str) -> McpListing:
    """Return the valid tools; skip and log the others.

    Model providers accept letters, digits, `_` and `-` in a name, MCP accepts more: other characters become `_`.
    """
    offered: dict[str, ToolDef] = {}
    names: dict[str, str] = {}
    for tool in tools:
        name = NOT_IN_A_NAME.sub("_", tool.name)[:MAX_NAME_CHARS]
        why = _unusable(tool, name, offered)
        if why is None:
            try:
                offered[name] = _offered(tool, name, endpoint)
            except ValidationError as invalid:
                why = invalid.errors(include_input=False, include_url=False)[0]["msg"]
        if why is not None:
            log.warning("skipping a tool of %s: %r: %s", endpoint, tool.name[:MAX_NAME_CHARS], why)
            continue
        names[name] = tool.name
    return McpListing(tuple(offered.values()), names)


def _unusable(tool: Tool, name: str, offered: Mapping[str, ToolDef]) -> str | None:
    if not name.strip("_"):
        return "its name has no letter or digit"
    if name in offered:
        return "another one has this name"
    if _size(tool.input_schema) > MAX_SCHEMA_CHARS:
        return f"its schema has more than {MAX_SCHEMA_CHARS} characters, or can't be written as JSON"
    return None


def _offered(tool: Tool, name: str, endpoint: str) -> ToolDef:
    output = tool.output_schema
    hints = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
    declared = {name: hint for name, hint in hints.items() if isinstance(hint, bool)}
    return ToolDef(
        name=name,
        description=tool.description[:MAX_DESCRIPTION_CHARS] if tool.description else None,
        input_schema=tool.input_schema,
        output_schema=output if output and _size(output) <= MAX_SCHEMA_CHARS else None,
        metadata={"endpoint": endpoint, **({ANNOTATIONS: declared} if declared else {})},
    )


def _size(schema: Mapping[str, Any]) -> int:
    """Return the length of the schema as JSON, or a value over the limit if JSON cannot represent it."""
    try:
        return len(json.dumps(schema, allow_nan=False))
    except (ValueError, RecursionError):
        return MAX_SCHEMA_CHARS + 1
