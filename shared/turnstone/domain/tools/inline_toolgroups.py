"""Toolgroups that the request of a turn brings along: MCP servers, with its own credentials, for that turn alone."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from pydantic import Field
from pydantic_core import to_json

from turnstone.domain.tools.tool_runs import OfferedTool
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import Frozen, JsonObject

INLINE = "inline::"  # begins no name of a registered toolgroup
ANNOTATIONS = "annotations"  # of a tool's metadata: the declarations of its MCP server about it
ABOUT_SERVER = "\n\nAbout its server: "


class ToolSelection(Frozen):
    """A part of a server's tools: those to which each condition applies.

    Attributes:
        names: the names of the tools, None for any.
        read_only: whether the server declares that the tool changes nothing, None for either.
    """

    names: tuple[str, ...] | None = None
    read_only: bool | None = None

    def has(self, tool: ToolDef) -> bool:
        """Return whether the tool is in it."""
        if self.names is not None and tool.name not in self.names:
            return False
        declared = bool(annotations_of(tool).get("readOnlyHint"))
        return self.read_only is None or self.read_only is declared


class InlineToolgroup(Frozen):
    """An MCP server of a turn's request. It is stored with the turn, and removed from it at the turn's end.

    Attributes:
        label: its name in the request.
        uri: its address, and `headers` those for it; both may contain secrets.
        description: text about the server for models, beside each of its tools.
        allowed: the tools that are offered.
        always: those that run after an approval only. None: all that are not in `never`.
        never: those that run without one.
    """

    label: str
    uri: str = Field(repr=False)
    headers: dict[str, str] = Field(default={}, repr=False)
    description: str | None = None
    allowed: ToolSelection = ToolSelection()
    always: ToolSelection | None = None
    never: ToolSelection | None = None

    @property
    def identifier(self) -> str:
        """The name of the toolgroup within its turn."""
        return INLINE + self.label

    def needs_approval(self, tool: ToolDef) -> bool:
        """Return whether calls of the tool run after an approval only."""
        if self.always is not None and self.always.has(tool):
            return True
        return self.never is None or not self.never.has(tool)

    def described(self, tool: ToolDef) -> ToolDef:
        """Return the tool as it is described to models."""
        if self.description is None:
            return tool
        return tool.model_copy(
            update={"description": f"{tool.description or tool.name}{ABOUT_SERVER}{self.description}"}
        )


class ListedServer(Frozen):
    """The tools of an inline toolgroup, as the response shows them that lists them first.

    Attributes:
        tools: each with `name`, `description`, `input_schema` and `annotations`.
        error: why the server could not list them, None otherwise.
    """

    label: str
    tools: tuple[JsonObject, ...] = ()
    error: str | None = None


def annotations_of(tool: ToolDef) -> Mapping[str, Any]:
    """Return the declarations of the server about the tool, such as `readOnlyHint`."""
    declared = (tool.metadata or {}).get(ANNOTATIONS)
    return declared if isinstance(declared, dict) else {}


def server_label(toolgroup: str) -> str:
    """Return the label of an inline toolgroup's server; any other toolgroup has its name."""
    return toolgroup.removeprefix(INLINE)


def listed_server(group: InlineToolgroup, offered: Iterable[OfferedTool]) -> ListedServer:
    """Return the offered tools of the group."""
    about = "" if group.description is None else ABOUT_SERVER + group.description
    own = (tool.definition for tool in offered if tool.toolgroup == group.identifier)
    return ListedServer(
        label=group.label,
        tools=tuple(
            {
                "name": tool.name,
                "description": (tool.description or "").removesuffix(about) or None,
                "input_schema": tool.input_schema or {"type": "object", "properties": {}},
                "annotations": dict(annotations_of(tool)) or None,
            }
            for tool in own
        ),
    )


def mark_of(group: InlineToolgroup, listed: ListedServer) -> str:
    """Return a text that is equal for the same tools at the same address, and reveals neither."""
    return sha256(to_json([group.uri, listed.tools])).hexdigest()[:32]
