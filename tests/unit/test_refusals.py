"""What an agent or a turn may not ask for is refused, and the refusal names the field it is about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.scripted import ScriptedTools
from turnstone.domain.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.services.refusals import refuse_at_creation, refuse_unsupported

TOOLS = ScriptedTools({"shop": {"price": lambda arguments: "3"}})
NAMED = [{"name": "ask"}]
GRAMMAR = {"type": "grammar", "bnf": {}}

# what is refused of agents and turns alike: the fields, the kind of the refusal, where it points, what it says
ALWAYS: list[tuple[dict[str, Any], type[InvalidRequest], tuple[str | int, ...], str]] = [
    (
        {"tool_config": {"tool_prompt_format": "python_list"}},
        Unsupported,
        ("tool_config", "tool_prompt_format"),
        "leave it out",
    ),
    (
        {"tool_config": {"system_message_behavior": "replace"}},
        Unsupported,
        ("tool_config", "system_message_behavior"),
        "leave it out",
    ),
    ({"response_format": GRAMMAR}, Unsupported, ("response_format",), "json_schema is"),
    ({"client_tools": [*NAMED, {"name": ""}]}, InvalidRequest, ("client_tools", 1, "name"), "needs a name"),
    ({"client_tools": [*NAMED, {"name": "x"}, *NAMED]}, InvalidRequest, ("client_tools", 2, "name"), "named 'ask'"),
    ({"tool_config": {"tool_choice": "required"}}, InvalidRequest, ("tool_config", "tool_choice"), "no tool to choose"),
    ({"tool_config": {"tool_choice": "ask"}}, InvalidRequest, ("tool_config", "tool_choice"), "no tool to choose"),
    (
        {"tool_config": {"tool_choice": "other"}, "client_tools": NAMED, "toolgroups": ["shop"]},
        InvalidRequest,
        ("tool_config", "tool_choice"),
        "tool_choice names 'other'",
    ),
]
# what may come later, or may be overridden by a turn, so that only a turn refuses it
OF_TURNS: list[tuple[dict[str, Any], tuple[str | int, ...], str]] = [
    ({"toolgroups": ["nowhere"]}, ("toolgroups",), "nowhere"),
]


def config_of(fields: dict[str, Any]) -> AgentConfig:
    return AgentConfig.model_validate({"model": "m", "instructions": "", **fields})


@pytest.mark.parametrize("refuse", [refuse_at_creation, refuse_unsupported])
@pytest.mark.parametrize(("fields", "kind", "location", "said"), ALWAYS)
def test_a_refusal_points_at_its_field_and_says_why(
    refuse: Any, fields: dict[str, Any], kind: type[InvalidRequest], location: tuple[str | int, ...], said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        refuse(config_of(fields), TOOLS)
    assert (type(refused.value), refused.value.location) == (kind, location)
    assert said in str(refused.value)


@pytest.mark.parametrize(("fields", "location", "said"), OF_TURNS)
def test_what_only_a_turn_can_judge_is_refused_by_turns_only(
    fields: dict[str, Any], location: tuple[str | int, ...], said: str
) -> None:
    refuse_at_creation(config_of(fields), TOOLS)
    with pytest.raises(Unsupported) as refused:
        refuse_unsupported(config_of(fields), TOOLS)
    assert refused.value.location == location
    assert said in str(refused.value)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "ask", "price"])
@pytest.mark.parametrize("refuse", [refuse_at_creation, refuse_unsupported])
def test_a_tool_that_is_there_may_be_chosen(refuse: Any, choice: str) -> None:
    fields = {"client_tools": NAMED, "toolgroups": ["shop"], "tool_config": {"tool_choice": choice}}
    refuse(config_of(fields), TOOLS)


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("refuse", [refuse_at_creation, refuse_unsupported])
def test_without_tools_none_need_be_chosen(refuse: Any, choice: str) -> None:
    refuse(config_of({"tool_config": {"tool_choice": choice}}), TOOLS)
