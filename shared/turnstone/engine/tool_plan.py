"""Who answers each call of an inference: a server tool, the client, or we ourselves if it can't be run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.tool_runs import OfferedTool
from turnstone.domain.tools.tools import ToolCall, ToolDef

QUOTED_CHARACTERS = 200


class ToolOffer(NamedTuple):
    """The tools a model may call in this turn. A client's tool hides a server tool of its name."""

    client: Mapping[str, ToolDef]
    server: Mapping[str, OfferedTool]

    @property
    def definitions(self) -> tuple[ToolDef, ...]:
        return (*self.client.values(), *(tool.definition for tool in self.server.values()))

    def name_offered(self, name: str) -> str | None:
        """Return under which name the model is offered what a client calls so, None if there is no such tool.

        A tool that runs under another name than the model's is listed to clients under that one.
        """
        if name in self.client or name in self.server:
            return name
        return next((offered for offered, tool in self.server.items() if tool.runs_as == name), None)


class RunOnServer(NamedTuple):
    """A call for one of the server's tools, with the arguments its toolgroup fixes laid over the model's."""

    call: ToolCall
    tool: OfferedTool
    arguments: Mapping[str, Any]


class AnswerAtOnce(NamedTuple):
    """A call that can't be run; the model is told why."""

    call: ToolCall
    answer: str


class ToolPlan(NamedTuple):
    """What to do about the calls: those on our side first, in the order called, then the client's."""

    ours: tuple[RunOnServer | AnswerAtOnce, ...]
    client: tuple[ToolCall, ...]


def build_offer(config: AgentConfig, of_groups: Sequence[OfferedTool]) -> ToolOffer:
    """Return the tools of the configuration: those of its toolgroups, which are told, and those it defines itself.

    Raises:
        InvalidRequest: two tools have the same name, and nothing says which one is meant.
    """
    client = {tool.name: tool for tool in config.client_tools}
    server: dict[str, OfferedTool] = {}
    for tool in of_groups:
        name = tool.definition.name
        if name in server and server[name].toolgroup != tool.toolgroup:
            said = f"toolgroups: {server[name].toolgroup!r} and {tool.toolgroup!r} both have a tool {name!r}"
            raise InvalidRequest(f"{said}; name the tools you want, as group/tool", ("toolgroups",))
        server[name] = tool
    if config.tools:
        from turnstone.domain.agents.defined_tools import translated_tools  # few agents have any

        defined = translated_tools(config)
        client |= {tool.name: tool for tool in defined.client}
        server |= {tool.definition.name: tool for tool in defined.server}
    return ToolOffer(client, {name: tool for name, tool in server.items() if name not in client})


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
            tool = offer.server[call.tool_name]
            ours.append(RunOnServer(call, tool, {**call.arguments, **tool.fixed_arguments}))
    return ToolPlan(tuple(ours), tuple(client))


def _unknown(call: ToolCall, offer: ToolOffer) -> str:
    names = ", ".join(definition.name for definition in offer.definitions) or "none"
    return f"There is no tool named {call.tool_name!r}. Tools you can call: {names}."


def _unparsable(call: ToolCall) -> str:
    written = (call.arguments_json or str(call.arguments))[:QUOTED_CHARACTERS]
    return f"The arguments of this call are not a JSON object, so it was not run. They were: {written}"
