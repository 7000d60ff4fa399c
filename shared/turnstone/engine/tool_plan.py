"""Assign each call of an inference to a server tool, to the client, or to an immediate refusal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.inline_toolgroups import INLINE
from turnstone.domain.tools.tool_runs import OfferedTool, ServerCall, ToolOffer
from turnstone.domain.tools.tools import ToolCall

if TYPE_CHECKING:
    from turnstone.domain.turns.turns import TurnState

QUOTED_CHARACTERS = 200
CLIENTS_TOOL = "This call was not run: its tool is now the client's."
OVER_LIMIT = "This call was not run: the limit of {} tool calls is reached."
NO_APPROVAL = "This call was not run: it needs an approval, for which this turn can't ask."


class RefusedCall(NamedTuple):
    """A call that cannot be run; the model receives the reason."""

    call: ToolCall
    answer: str


class ToolPlan(NamedTuple):
    """The plan for the calls: the server's first, in the order called, then those that the turn leaves to its client.

    Attributes:
        client: calls that the client runs.
        unapproved: calls of the server's tools that the client has to approve first.
    """

    ours: tuple[ServerCall | RefusedCall, ...]
    client: tuple[ToolCall, ...]
    unapproved: tuple[ToolCall, ...] = ()

    @property
    def is_pure(self) -> bool:
        """Whether it is one call, of a pure tool that no shield judges."""
        match self:
            case ToolPlan(ours=(ServerCall(tool=tool),), client=(), unapproved=()):
                return tool.is_pure and not (tool.input_shields or tool.output_shields)
        return False

    def left_of(self, calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        """Return those of the calls that the turn leaves to its client, in their order."""
        return tuple(call for call in calls if call in self.client or call in self.unapproved)


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
    for name, tool in server.items():
        if name in client and tool.toolgroup.startswith(INLINE):
            message = (
                f"toolgroups: {tool.toolgroup!r} has a tool {name!r}, and so has the client; rename or leave out one"
            )
            raise InvalidRequest(message, ("toolgroups",))
    return ToolOffer(client, {name: tool for name, tool in server.items() if name not in client})


def plan_tools(calls: Iterable[ToolCall], state: TurnState, offer: ToolOffer) -> ToolPlan:
    """Return the assignment of the calls, which the last inference of the state made, or which it carries."""
    ours: list[ServerCall | RefusedCall] = []
    client: list[ToolCall] = []
    unapproved: list[ToolCall] = []
    allowed = _allowed(state, offer)
    approved = () if state.inference_count else state.carried_calls
    answered = sum(len(step.tool_responses) for step in state.turn.steps if step.step_type == "tool_execution")
    most = state.policy.max_tool_calls
    for index, call in enumerate(calls):
        if call.tool_name not in offer.client and call.tool_name not in offer.server:
            ours.append(RefusedCall(call, _unknown(call, offer)))
        elif isinstance(call.arguments, str):
            ours.append(RefusedCall(call, _unparsable(call)))
        elif allowed is not None and call.tool_name not in allowed:
            ours.append(RefusedCall(call, _not_allowed(call, allowed)))
        elif call.tool_name in offer.client:
            if call in approved:
                ours.append(RefusedCall(call, CLIENTS_TOOL))
            else:
                client.append(call)
        elif offer.server[call.tool_name].needs_approval and call not in approved:
            if state.policy.at_client_calls == "end":
                unapproved.append(call)
            else:
                ours.append(RefusedCall(call, NO_APPROVAL))
        elif most is not None and answered + sum(isinstance(each, ServerCall) for each in ours) >= most:
            ours.append(RefusedCall(call, OVER_LIMIT.format(most)))
        else:
            tool = offer.server[call.tool_name]
            key = f"{state.turn_id}:{state.inference_count}:{call.call_id}"
            arguments = {**state.policy.for_tool(call.arguments), **tool.fixed_arguments}
            ours.append(ServerCall(call, tool, arguments, key, answered + index))
    return ToolPlan(tuple(ours), tuple(client), tuple(unapproved))


def _allowed(state: TurnState, offer: ToolOffer) -> frozenset[str] | None:
    """Return the tools that the last inference could call, None for all."""
    if not state.policy.tool_rules:
        return None
    from turnstone.engine.loop_rules import allowed_when_called  # only where turns run, and few have rules

    return allowed_when_called(state, offer)


def _unknown(call: ToolCall, offer: ToolOffer) -> str:
    names = ", ".join(definition.name for definition in offer.definitions) or "none"
    return f"There is no tool named {call.tool_name!r}. Tools you can call: {names}."


def _not_allowed(call: ToolCall, allowed: Iterable[str]) -> str:
    names = ", ".join(sorted(allowed)) or "none"
    return f"The tool {call.tool_name!r} can't be called now. Tools you can call: {names}."


def _unparsable(call: ToolCall) -> str:
    written = (call.arguments_json or str(call.arguments))[:QUOTED_CHARACTERS]
    return f"The arguments of this call are not a JSON object, so it was not run. They were: {written}"
