"""Assign each call of an inference to a server tool, to the client, or to an immediate refusal. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.tool_runs import OfferedTool
from turnstone.domain.tools.tools import ToolCall, ToolDef

QUOTED_CHARACTERS = 200


class ToolOffer(NamedTuple):
    """The tools that a model may call in this turn. A client's tool hides a server tool of the same name."""

    client: Mapping[str, ToolDef]
    server: Mapping[str, OfferedTool]

    @property
    def definitions(self) -> tuple[ToolDef, ...]:
        return (*self.client.values(), *(tool.definition for tool in self.server.values()))

    def name_offered(self, name: str) -> str | None:
        """Return the model's name of the tool that a client names so, None without one.

        A tool that runs under another name than the model's is listed to clients under that one.
        """
        if name in self.client or name in self.server:
            return name
        return next((offered for offered, tool in self.server.items() if tool.runs_as == name), None)


class RunOnServer(NamedTuple):
    """A call of a server tool, with the model's arguments overridden by the toolgroup's fixed ones."""

    call: ToolCall
    tool: OfferedTool
    arguments: Mapping[str, Any]


class AnswerAtOnce(NamedTuple):
    """A call that cannot be run; the model receives the reason."""

    call: ToolCall
    answer: str


class ToolPlan(NamedTuple):
    """The plan for the calls: the server's first, in the order called, then the client's."""

    ours: tuple[RunOnServer | AnswerAtOnce, ...]
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
        client |= {tool.name: tool for tool in defined.client}
        server |= {tool.definition.name: tool for tool in defined.server}
    return ToolOffer(client, {name: tool for name, tool in server.items() if name not in client})


def plan_tools(calls: Iterable[ToolCall], offer: ToolOffer) -> ToolPlan:
    """Return the assignment of the calls."""
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
