"""Tools of a response that this server runs: which items show their calls."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from turnstone.domain.memory.lent_banks import FILE_SEARCH
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.values.frozen import Frozen

WEB_SEARCH = "builtin::websearch"
CODE_INTERPRETER = "builtin::code_interpreter"
IMAGE_GENERATION = "builtin::photogen"
HostedKind = Literal["file_search", "web_search", "code_interpreter", "image_generation", "mcp"]
KINDS: Mapping[str, HostedKind] = MappingProxyType(
    {
        FILE_SEARCH: "file_search",
        WEB_SEARCH: "web_search",
        CODE_INTERPRETER: "code_interpreter",
        IMAGE_GENERATION: "image_generation",
    }
)
CITED = ("file_search", "web_search")


class HostedTool(Frozen):
    """A tool that this server runs.

    Attributes:
        kind: of the items that show its calls.
        group: the toolgroup that runs it.
        runs_as: its name in that group.
        needs_approval: whether a call runs only after the client has approved it.
    """

    kind: HostedKind = "mcp"
    group: str = ""
    runs_as: str = ""
    needs_approval: bool = False


def hosted_tools(offer: ToolOffer) -> dict[str, HostedTool]:
    """Return the server's tools of the offer, by the names that models call them by."""
    return {
        name: HostedTool(
            kind=KINDS.get(tool.toolgroup, "mcp"),
            group=tool.toolgroup,
            runs_as=tool.runs_as or name,
            needs_approval=tool.needs_approval,
        )
        for name, tool in offer.server.items()
    }
