"""The tools that come with the server and need nothing but it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnstone.domain.agents import ToolGroup, toolgroup_name
from turnstone.domain.errors import ToolFailed, Unsupported
from turnstone.domain.tools import ToolDef, ToolParameter
from turnstone.ports import Clock, OfferedTool, ToolInvocation, ToolResult

CURRENT_TIME = ToolDef(
    name="current_time",
    description="Get the current date and time.",
    parameters=(
        ToolParameter(
            name="timezone",
            parameter_type="string",
            description="IANA name of the time zone, such as Europe/Berlin. UTC if left out.",
            required=False,
        ),
    ),
)
GROUPS: Mapping[str, tuple[ToolDef, ...]] = {"builtin::clock": (CURRENT_TIME,)}


class BuiltinTools:
    """Runs the toolgroup `builtin::clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def groups(self) -> tuple[str, ...]:
        return tuple(GROUPS)

    def offered(self, toolgroups: Sequence[ToolGroup]) -> tuple[OfferedTool, ...]:
        """Return each tool once; where it is named more than once, the arguments named last are fixed."""
        offered: dict[str, OfferedTool] = {}
        for toolgroup in toolgroups:
            fixed = {} if isinstance(toolgroup, str) else toolgroup.args
            for tool in tools_of(toolgroup_name(toolgroup)):
                earlier = offered[tool.name].fixed_arguments if tool.name in offered else {}
                offered[tool.name] = OfferedTool(tool, {**earlier, **fixed})
        return tuple(offered.values())

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        if invocation.call.tool_name != CURRENT_TIME.name:
            raise ToolFailed(f"there is no tool {invocation.call.tool_name!r} here")
        zone = zone_named(invocation.arguments.get("timezone"))
        return ToolResult(self._clock.now().astimezone(zone).isoformat(timespec="seconds"))


def tools_of(name: str) -> tuple[ToolDef, ...]:
    """Return the tools of `group` or `group/tool`. Raises Unsupported."""
    group, _, tool_name = name.partition("/")
    if group not in GROUPS:
        known = ", ".join(sorted(GROUPS))
        raise Unsupported(f"this server can't run tools of {group!r}; it has those of: {known}", ("toolgroups",))
    tools = tuple(tool for tool in GROUPS[group] if tool_name in ("", tool.name))
    if not tools:
        known = ", ".join(tool.name for tool in GROUPS[group])
        raise Unsupported(f"toolgroup {group!r} has no tool {tool_name!r}; it has: {known}", ("toolgroups",))
    return tools


def zone_named(name: Any) -> tzinfo:
    """Return the time zone, UTC for none. Raises ToolFailed."""
    if name in (None, "", "UTC"):
        return UTC
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ToolFailed(f"unknown time zone {name!r}; use an IANA name such as 'Europe/Berlin' or 'UTC'") from exc
