"""Who answers each call of an inference: a server tool, the client, or we ourselves if it can't be run. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from turnstone.domain.agents import AgentConfig
from turnstone.domain.tools import ToolCall, ToolDef
from turnstone.ports import OfferedTool, ToolRuntime

QUOTED_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools a model may call in this turn. A client's tool hides a server tool of its name."""

    client: Mapping[str, ToolDef]
    server: Mapping[str, OfferedTool]

    @property
    def definitions(self) -> tuple[ToolDef, ...]:
        return (*self.client.values(), *(tool.definition for tool in self.server.values()))


@dataclass(frozen=True, slots=True)
class RunOnServer:
    """A call for one of the server's tools, with the arguments its toolgroup fixes laid over the model's."""

    call: ToolCall
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerAtOnce:
    """A call that can't be run; the model is told why."""

    call: ToolCall
    answer: str


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """What to do about the calls: those on our side first, in the order called, then the client's."""

    ours: tuple[RunOnServer | AnswerAtOnce, ...]
    client: tuple[ToolCall, ...]


def build_offer(config: AgentConfig, tools: ToolRuntime) -> ToolOffer:
    """Return the tools of the configuration. Raises Unsupported, naming a toolgroup that does not exist."""
    client = {tool.name: tool for tool in config.client_tools}
    offered = tools.offered(config.toolgroups) if config.toolgroups else ()
    server = {tool.definition.name: tool for tool in offered if tool.definition.name not in client}
    return ToolOffer(client, server)


def plan_tools(calls: Iterable[ToolCall], offer: ToolOffer) -> ToolPlan:
    """Return who answers which call."""
    ours: list[RunOnServer | AnswerAtOnce] = []
    client: list[ToolCall] = []
    for call in calls:
        if call.tool_name not in offer.client and call.tool_name not in offer.server:
            ours.append(AnswerAtOnce(call, _unknown(call, offer)))
        elif isinstance(call.arguments, str):
            ours.append(AnswerAtOnce(call, _unparsable(call)))
        elif call.tool_name in offer.client:
            client.append(call)
        else:
            fixed = offer.server[call.tool_name].fixed_arguments
            ours.append(RunOnServer(call, {**call.arguments, **fixed}))
    return ToolPlan(tuple(ours), tuple(client))


def _unknown(call: ToolCall, offer: ToolOffer) -> str:
    names = ", ".join(definition.name for definition in offer.definitions) or "none"
    return f"There is no tool named {call.tool_name!r}. Tools you can call: {names}."


def _unparsable(call: ToolCall) -> str:
    written = (call.arguments_json or str(call.arguments))[:QUOTED_CHARACTERS]
    return f"The arguments of this call are not a JSON object, so it was not run. They were: {written}"
