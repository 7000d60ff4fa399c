"""Requests that an agent or a turn may not make are refused with an error that names the field.

Covers: services/agents/refusals
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedTools
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.ports.models import Capability
from turnstone.services.agents.refusals import refuse_at_creation, supported_offer

TOOLS = ScriptedTools({"shop": {"price": lambda arguments: "3"}}).offered
NAMED = [{"name": "ask"}]
GRAMMAR = {"type": "grammar", "bnf": {"grammar": 'root ::= "yes"'}}

# refusals of agents and turns alike: the fields, the kind of the refusal, its location, its message
ALWAYS: list[tuple[dict[str, Any], type[InvalidRequest], tuple[str | int, ...], str]] = [
    *(
        ({"response_format": {"type": "grammar", "bnf": bnf}}, InvalidRequest, ("response_format", "bnf"), "TEXT")
        for bnf in (
            {},
            {"grammar": " "},
            {"grammar": ["root"]},
            {"root": "x"},
            {"grammar": "root ::= x", "start": "root"},
        )
    ),
    ({"client_tools": [*NAMED, {"name": ""}]}, InvalidRequest, ("client_tools", 1, "name"), "must have a name"),
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
# requests that may come later, or be overridden by a turn, so that only a turn refuses them
OF_TURNS: list[tuple[dict[str, Any], tuple[str | int, ...], str]] = [
    ({"toolgroups": ["nowhere"]}, ("toolgroups",), "nowhere"),
    ({"response_format": GRAMMAR}, ("response_format",), "takes no grammar"),
]
IN_WORDS = [{"tool_prompt_format": form} for form in ("json", "function_tag", "python_list")]
BOUND = [{"type": "json_schema", "json_schema": {}}, GRAMMAR]


def refuse_of_a_turn(config: AgentConfig, *capabilities: Capability) -> None:
    supported_offer(config, TOOLS, lambda: frozenset(capabilities))


def refuse_of_an_agent(config: AgentConfig) -> None:
    refuse_at_creation(config, TOOLS)


def config_of(fields: dict[str, Any]) -> AgentConfig:
    return AgentConfig.model_validate({"model": "m", "instructions": "", **fields})


@pytest.mark.parametrize("refuse", [refuse_of_an_agent, refuse_of_a_turn])
@pytest.mark.parametrize(("fields", "kind", "location", "message"), ALWAYS)
def test_a_refusal_has_the_location_of_its_field_and_the_reason(
    refuse: Any, fields: dict[str, Any], kind: type[InvalidRequest], location: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        refuse(config_of(fields))
    assert (type(refused.value), refused.value.location) == (kind, location)
    assert message in str(refused.value)


@pytest.mark.parametrize(("fields", "location", "message"), OF_TURNS)
def test_a_request_that_only_a_turn_can_judge_is_refused_by_turns_only(
    fields: dict[str, Any], location: tuple[str | int, ...], message: str
) -> None:
    refuse_of_an_agent(config_of(fields))
    with pytest.raises(Unsupported) as refused:
        refuse_of_a_turn(config_of(fields))
    assert refused.value.location == location
    assert message in str(refused.value)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "ask", "price"])
@pytest.mark.parametrize("refuse", [refuse_of_an_agent, refuse_of_a_turn])
def test_a_tool_that_is_there_may_be_chosen(refuse: Any, choice: str) -> None:
    fields = {"client_tools": NAMED, "toolgroups": ["shop"], "tool_config": {"tool_choice": choice}}
    refuse(config_of(fields))


@pytest.mark.parametrize("choice", ["auto", "none"])
@pytest.mark.parametrize("refuse", [refuse_of_an_agent, refuse_of_a_turn])
def test_without_tools_none_need_be_chosen(refuse: Any, choice: str) -> None:
    refuse(config_of({"tool_config": {"tool_choice": choice}}))


def test_a_grammar_is_for_models_that_take_one() -> None:
    refuse_of_a_turn(config_of({"response_format": GRAMMAR}), "grammar")


@pytest.mark.parametrize("tool_config", [{}, *IN_WORDS])
@pytest.mark.parametrize("behavior", ["append", "replace"])
@pytest.mark.parametrize("refuse", [refuse_of_an_agent, refuse_of_a_turn])
def test_tools_in_the_prompt_may_stand_beside_the_instructions_or_in_them(
    refuse: Any, tool_config: Any, behavior: str
) -> None:
    refuse(config_of({"client_tools": NAMED, "tool_config": {**tool_config, "system_message_behavior": behavior}}))


@pytest.mark.parametrize("tool_config", IN_WORDS)
@pytest.mark.parametrize("response_format", BOUND)
def test_a_turn_can_not_bind_the_answer_in_which_calls_are_to_be_written(
    tool_config: Any, response_format: Any
) -> None:
    bound = {"client_tools": NAMED, "tool_config": tool_config, "response_format": response_format}
    refuse_of_an_agent(config_of(bound))
    with pytest.raises(InvalidRequest) as refused:
        refuse_of_a_turn(config_of(bound), "grammar")
    assert refused.value.location == ("response_format",)
    for free in ({"client_tools": []}, {"tool_config": {**tool_config, "tool_choice": "none"}}, {"tool_config": {}}):
        refuse_of_a_turn(config_of(bound | free), "grammar")


def test_a_defined_tool_whose_group_is_off_is_refused_before_the_turn() -> None:
    search = config_of({"tools": [{"type": "photogen"}]})
    with pytest.raises(Unsupported, match="builtin::photogen") as refused:
        refuse_of_a_turn(search)
    assert refused.value.location == ("tools",)
    refuse_of_an_agent(search)
