"""Toolgroup `builtin::clock`, without dependencies outside the server."""

from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.ports.system import Clock

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


class ClockToolbox:
    """The current time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the toolgroup's only tool."""
        return (CURRENT_TIME,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the time. Raises ToolFailed."""
        zone = zone_named(invocation.arguments.get("timezone"))
        return ToolResult(self._clock.now().astimezone(zone).isoformat(timespec="seconds"))


def zone_named(name: Any) -> tzinfo:
    """Return the time zone, UTC for none. Raises ToolFailed."""
    if name in (None, "", "UTC"):
        return UTC
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ToolFailed(f"unknown time zone {name!r}; use an IANA name such as 'Europe/Berlin' or 'UTC'") from exc
