"""What an agent or a turn may not ask for, told before anything is stored: a field is never accepted and ignored."""

from contextlib import suppress

from turnstone.domain.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.engine.tool_plan import ToolOffer, build_offer
from turnstone.ports import ToolRuntime


def refuse_at_creation(config: AgentConfig, tools: ToolRuntime) -> None:
    """Raise Unsupported for a function this server does not offer, InvalidRequest for tools that clash.

    Names are not looked up: what they name may come later, and a turn refuses those that nothing has.
    Source: the Agents contract, while the registry is open.
    """
    refuse_unoffered(config)
    with suppress(Unsupported):
        refuse_impossible_choice(config, build_offer(config, tools))


def refuse_unsupported(config: AgentConfig, tools: ToolRuntime) -> None:
    """Raise Unsupported for what this server can't do in a turn, InvalidRequest for tools that clash."""
    refuse_unoffered(config)
    refuse_impossible_choice(config, build_offer(config, tools))


def refuse_unoffered(config: AgentConfig) -> None:
    """Raise Unsupported for a function no server of this version offers, InvalidRequest for tools that clash."""
    if config.tool_config.tool_prompt_format not in (None, "json"):
        raise Unsupported(
            "tool_prompt_format: this server offers tools to the model in the provider's own (JSON) form only; "
            "leave it out",
            ("tool_config", "tool_prompt_format"),
        )
    if config.tool_config.system_message_behavior != "append":
        raise Unsupported(
            "system_message_behavior: this server adds no system prompt of its own that could be replaced; "
            "leave it out",
            ("tool_config", "system_message_behavior"),
        )
    if config.response_format is not None and config.response_format.type == "grammar":
        raise Unsupported("response_format: grammars are not offered, json_schema is", ("response_format",))
    refuse_clashing_tools(config)


def refuse_impossible_choice(config: AgentConfig, offer: ToolOffer) -> None:
    """Raise InvalidRequest for a choice among tools that can't be made."""
    choice = config.tool_config.tool_choice
    if choice not in ("auto", "none") and not offer.definitions:
        raise InvalidRequest(
            f"tool_choice is {choice!r} but there is no tool to choose", ("tool_config", "tool_choice")
        )
    if choice not in ("auto", "required", "none") and choice not in (*offer.client, *offer.server):
        raise InvalidRequest(f"tool_choice names {choice!r}, which is no tool here", ("tool_config", "tool_choice"))


def refuse_clashing_tools(config: AgentConfig) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(config.client_tools):
        if not tool.name:
            raise InvalidRequest("a client tool needs a name", ("client_tools", index, "name"))
        if tool.name in seen:
            raise InvalidRequest(f"two client tools are named {tool.name!r}", ("client_tools", index, "name"))
        seen.add(tool.name)
