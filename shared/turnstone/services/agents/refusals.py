"""Refusals of an agent's or turn's configuration, before anything is stored: no field is accepted and ignored."""

from collections.abc import Callable, Sequence, Set
from contextlib import suppress

from turnstone.domain.agents.agents import AgentConfig, GrammarFormat, ToolGroup, toolgroup_name
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.letta.tools import custom_tool_in, custom_tools_of
from turnstone.domain.memory.lent_banks import RAG
from turnstone.domain.tools.tool_runs import OfferedTool, ToolOffer
from turnstone.engine.tool_plan import build_offer
from turnstone.ports.models import Capability

# called only for a feature that not every model has: the call makes the model's providers
Capabilities = Callable[[], Set[Capability]]
# returns the tools of groups
Offered = Callable[[Sequence[ToolGroup]], Sequence[OfferedTool]]


def refuse_at_creation(config: AgentConfig, offered: Offered) -> None:
    """Raise Unsupported for a function this server does not offer, InvalidRequest for tools that clash.

    Looks up neither names nor capabilities of a model: they may come later, and a turn refuses missing ones.
    Source: the Agents contract, while the registry is open.
    """
    refuse_contradictions(config)
    refuse_wrong_arguments(config.toolgroups)
    with suppress(Unsupported):
        refuse_impossible_choice(config, build_offer(config, offered(config.toolgroups)))


def refuse_wrong_arguments(toolgroups: Sequence[ToolGroup]) -> None:
    """Raise InvalidRequest, naming the key, for arguments of a toolgroup of this server that have no effect."""
    for index, toolgroup in enumerate(toolgroups):
        if not isinstance(toolgroup, str) and toolgroup.name.partition("/")[0] == RAG:
            from turnstone.domain.tools import rag_settings  # only for agents that search

            rag_settings.refuse_wrong_arguments(toolgroup.args, ("toolgroups", index, "args"))


def refuse_added_python_tools(toolgroups: Sequence[ToolGroup], own: Sequence[ToolGroup]) -> None:
    """Raise Unsupported for tools of Python in a turn's toolgroups that its agent lacks."""
    has = custom_tools_of(own)
    for index, toolgroup in enumerate(toolgroups):
        tool_id = custom_tool_in(toolgroup)
        if tool_id is not None and tool_id not in has:
            location = ("toolgroups", index)
            raise Unsupported("toolgroups: an agent has tools of Python, a turn can't add them", location)


def refuse_many_iterations(requested: int | None, most: int) -> None:
    """Raise InvalidRequest for more inferences a turn than this server runs."""
    if requested is not None and requested > most:
        limit = f"{most} inferences a turn (TURNSTONE_MAX_INFER_ITERS)"
        message = f"max_infer_iters: this server runs at most {limit}, not {requested}"
        raise InvalidRequest(message, ("max_infer_iters",))


def supported_offer(config: AgentConfig, offered: Offered, capabilities: Capabilities) -> ToolOffer:
    """Return the tools of a turn of this configuration, after all checks.

    Raises:
        Unsupported: this server or its model lacks a requested feature.
        InvalidRequest: tools clash.
        ToolgroupUnavailable: as `offered` does.
    """
    refuse_contradictions(config)
    if isinstance(config.response_format, GrammarFormat) and "grammar" not in capabilities():
        raise Unsupported(
            "response_format: the provider of this agent's model takes no grammar; use json_schema, or leave it out",
            ("response_format",),
        )
    offer = build_offer(config, offered(config.toolgroups))
    if config.tools:
        refuse_missing_groups(config, offer, offered)
        refuse_missing_query_tool(config, offered)
    refuse_impossible_choice(config, offer)
    refuse_bound_calls(config, offer)
    return offer


def refuse_contradictions(config: AgentConfig) -> None:
    """Raise InvalidRequest for fields that contradict each other for any model and tools."""
    if isinstance(config.response_format, GrammarFormat):
        grammar = config.response_format.bnf.get("grammar")
        if not (isinstance(grammar, str) and grammar.strip()) or len(config.response_format.bnf) > 1:
            raise InvalidRequest(
                'bnf must be {"grammar": TEXT}, a grammar in the notation of the model\'s server',
                ("response_format", "bnf"),
            )
    refuse_clashing_tools(config)


def refuse_missing_groups(config: AgentConfig, offer: ToolOffer, offered: Offered) -> None:
    """Raise Unsupported if a tool that the configuration defines is run by a group that is not here."""
    named = {toolgroup_name(toolgroup).partition("/")[0] for toolgroup in config.toolgroups}
    defined = dict.fromkeys(tool.toolgroup for tool in offer.server.values() if tool.toolgroup not in ("", *named))
    try:
        offered(list(defined))
    except Unsupported as off:
        raise Unsupported(f"tools: {off}", ("tools",)) from off


def refuse_missing_query_tool(config: AgentConfig, offered: Offered) -> None:
    """Raise Unsupported if the tool that makes the query to memory is not here."""
    for index, tool in enumerate(config.tools):
        if tool.type == "memory" and tool.query_generator_config.type == "custom":
            location = ("tools", index, "query_generator_config", "tool")
            try:
                offered([tool.query_generator_config.tool])
            except Unsupported as missing:
                raise Unsupported(f"{'.'.join(map(str, location))}: {missing}", location) from missing


def refuse_bound_calls(config: AgentConfig, offer: ToolOffer) -> None:
    """Raise InvalidRequest if a model would write tool calls as text, and a format constrains its answer."""
    offers_in_words = config.tool_config.tool_prompt_format is not None and config.tool_config.tool_choice != "none"
    if offers_in_words and offer.definitions and config.response_format is not None:
        raise InvalidRequest(
            "response_format: this model writes its tool calls as text, which the format would constrain as well; "
            "leave out the format or the tools",
            ("response_format",),
        )


def refuse_impossible_choice(config: AgentConfig, offer: ToolOffer) -> None:
    """Raise InvalidRequest for a choice among tools that can't be made."""
    choice = config.tool_config.tool_choice
    if choice not in ("auto", "none") and not offer.definitions:
        raise InvalidRequest(
            f"tool_choice is {choice!r}, but there is no tool to choose; add one, or leave it out",
            ("tool_config", "tool_choice"),
        )
    if choice not in ("auto", "required", "none") and offer.name_offered(choice) is None:
        raise InvalidRequest(
            f"tool_choice names {choice!r}, but there is no such tool; name one of the agent's tools",
            ("tool_config", "tool_choice"),
        )


def refuse_clashing_tools(config: AgentConfig) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(config.client_tools):
        if not tool.name:
            raise InvalidRequest("a client tool must have a name", ("client_tools", index, "name"))
        if tool.name in seen:
            raise InvalidRequest(
                f"two client tools are named {tool.name!r}; rename one", ("client_tools", index, "name")
            )
        seen.add(tool.name)
