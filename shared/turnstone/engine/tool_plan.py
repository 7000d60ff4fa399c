"""Assign each call of an inference to a server tool, to the client, or to an immediate refusal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.tool_runs import OfferedTool, ServerCall, ToolOffer
from turnstone.domain.tools.tools import ToolCall

if TYPE_CHECKING:
    from turnstone.domain.turns.turns import TurnState

QUOTED_CHARACTERS = 200


class RefusedCall(NamedTuple):
    """A call that cannot be run; the model receives the reason."""

    call: ToolCall
    answer: str


class ToolPlan(NamedTuple):
    """The plan for the calls: the server's first, in the order called, then the client's."""

    ours: tuple[ServerCall | RefusedCall, ...]
    client: tuple[ToolCall, ...]


def build_offer(config: AgentConfig, of_groups: Sequence[OfferedTool]) -> ToolOffer:
    """Return the configuration's tools: those of its toolgroups, which are passed in, and its own definitions.

    Raises:
        InvalidRequest: two tools have the same name, and the choice is ambiguous.
    """
    client = {tool.name: tool for tool in config.client_tools}
    server: dict[str, OfferedTool] = {}
    for tool in of_groups:
        name = tool.definition.name
        if name in server and server[name].toolgroup != tool.toolgroup:
            message = f"toolgroups: {server[name].toolgroup!r} and {tool.toolgroup!r} both have a tool {name!r}"
            raise InvalidRequest(f"{message}; name the tools you want, as group/tool", ("toolgroups",))
        server[name] = tool
    if config.tools:
        from turnstone.domain.agents.defined_tools import translated_tools  # few agents have any

        defined = translated_tools(config)
        client |= defined.client
        server |= defined.server
    return ToolOffer(client, {name: tool for name, tool in server.items() if name not in client})


def plan_tools(calls: Iterable[ToolCall], state: TurnState, offer: ToolOffer) -> ToolPlan:
    """Return the assignment of the calls, which the last inference of the state made."""
    ours: list[ServerCall | RefusedCall] = []
    client: list[ToolCall] = []
    for call in calls:
        if call.tool_name not in offer.client and call.tool_name not in offer.server:
            ours.append(RefusedCall(call, _unknown(call, offer)))
        elif isinstance(call.arguments, str):
            ours.append(RefusedCall(call, _unparsable(call)))
        elif call.tool_name in offer.client:
            client.append(call)
        else:
            tool = offer.server[call.tool_name]
            key = f"{state.turn_id}:{state.inference_count}:{call.call_id}"
            ours.append(ServerCall(call, tool, {**call.arguments, **tool.fixed_arguments}, key))
    return ToolPlan(tuple(ours), tuple(client))


def _unknown(call: ToolCall, offer: ToolOffer) -> str:
    names = ", ".join(definition.name for definition in offer.definitions) or "none"
    return f"There is no tool named {call.tool_name!r}. Tools you can call: {names}."


def _unparsable(call: ToolCall) -> str:
    written = (call.arguments_json or str(call.arguments))[:QUOTED_CHARACTERS]
    return f"The arguments of this call are not a JSON object, so it was not run. They were: {written}"
