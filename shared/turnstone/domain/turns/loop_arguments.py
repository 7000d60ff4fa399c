"""Arguments of tools that are for the loop: added to the tools as offered, and taken off before a tool runs. Pure."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.loop_policies import LoopPolicy
from turnstone.domain.values.by_identity import ByIdentity

MOST_TOOLS = 256  # remembered; the base tools are the same objects in every turn
THOUGHTS = {
    "type": "string",
    "description": "Your thoughts before this call, for yourself alone: the user does not see them.",
}
HEARTBEAT = {
    "type": "boolean",
    "description": "Whether you want to continue after this call, such as to read its result or to call another tool.",
}


def with_loop_arguments(tools: Iterable[ToolDef], policy: LoopPolicy) -> tuple[ToolDef, ...]:
    """Return the tools with the arguments of the policy's loop: thoughts first, the heartbeat last, all required.

    The tool of the answer takes no heartbeat: the turn ends after it.
    """
    if not policy.loop_arguments and policy.heartbeat_argument is None:
        return tuple(tools)
    first = policy.loop_arguments
    return tuple(
        _with_arguments(ByIdentity(tool), first, None if tool.name == policy.answer_tool else policy.heartbeat_argument)
        for tool in tools
    )


@lru_cache(MOST_TOOLS)
def _with_arguments(same: ByIdentity[ToolDef], thoughts: tuple[str, ...], heartbeat: str | None) -> ToolDef:
    tool = same.value
    schema = input_schema_of(tool)
    first: dict[str, Any] = dict.fromkeys(thoughts, THOUGHTS)
    last: dict[str, Any] = {} if heartbeat is None else {heartbeat: HEARTBEAT}
    own = {name: value for name, value in schema.get("properties", {}).items() if name not in {**first, **last}}
    required = [name for name in schema.get("required", ()) if name in own]
    changed = {
        **schema,
        "type": "object",
        "properties": {**first, **own, **last},
        "required": [*first, *required, *last],
    }
    return tool.model_copy(update={"input_schema": changed, "parameters": None})
