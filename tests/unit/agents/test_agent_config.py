"""An agent's configuration: its defaults, its refusals, and the fields that a turn may override.

Covers: domain/agents/agents, domain/tools/tools, domain/values/frozen
"""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from turnstone.domain.agents.agents import (
    AgentConfig,
    GrammarFormat,
    Greedy,
    JsonSchemaFormat,
    SamplingParams,
    ToolConfig,
    ToolGroupWithArgs,
    TopK,
    TopP,
    TurnOverrides,
    toolgroup_name,
)
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import MAX_DEPTH

LEAST = {"model": "m", "instructions": "Be brief."}
# Every field that has a default, with it. Source: the Llama Stack Agents contract.
DEFAULTS: dict[str, Any] = {
    "sampling_params": {
        "strategy": {"type": "greedy"},
        "max_tokens": 0,
        "repetition_penalty": 1.0,
        "stop": None,
    },
    "input_shields": [],
    "output_shields": [],
    "toolgroups": [],
    "client_tools": [],
    "tool_choice": None,
    "tool_prompt_format": None,
    "tool_config": {"tool_choice": "auto", "tool_prompt_format": None, "system_message_behavior": "append"},
    "max_infer_iters": 10,
    "name": None,
    "enable_session_persistence": False,
    "response_format": None,
}
WIRE_ORDER = [*list(DEFAULTS)[:9], "model", "instructions", *list(DEFAULTS)[9:]]
TOO_DEEP = json.loads('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))


def config_of(**fields: Any) -> AgentConfig:
    """Return the configuration of a client that sends these fields."""
    return AgentConfig.model_validate_json(json.dumps(LEAST | fields))


def overrides_of(**fields: Any) -> TurnOverrides:
    return TurnOverrides.model_validate_json(json.dumps(fields))


def wired(config: AgentConfig) -> dict[str, Any]:
    return json.loads(config.model_dump_json())


def test_a_missing_field_has_its_default_and_is_serialised() -> None:
    assert wired(config_of()) == LEAST | DEFAULTS


def test_fields_are_serialised_in_the_order_of_the_wire() -> None:
    serialised = wired(config_of())
    assert list(serialised) == WIRE_ORDER
    assert list(DEFAULTS["sampling_params"]) == list(serialised["sampling_params"])
    assert list(DEFAULTS["tool_config"]) == list(serialised["tool_config"])


@pytest.mark.parametrize("field", DEFAULTS)
def test_null_is_the_default(field: str) -> None:
    assert config_of() == config_of(**{field: None})


@pytest.mark.parametrize("parent", ["sampling_params", "tool_config"])
def test_null_inside_a_field_is_the_default_too(parent: str) -> None:
    assert config_of() == config_of(**{parent: dict.fromkeys(DEFAULTS[parent])})


@pytest.mark.parametrize("field", LEAST)
def test_model_and_instructions_are_required(field: str) -> None:
    others = {name: value for name, value in LEAST.items() if name != field}
    for sent in (others, others | {field: None}):
        with pytest.raises(ValidationError, match=field):
            AgentConfig.model_validate(sent)


def test_empty_instructions_are_instructions() -> None:
    assert config_of(instructions="").instructions == ""


def test_unknown_fields_are_ignored() -> None:
    assert config_of() == config_of(flavour="vanilla")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type": "greedy"}, Greedy()),
        ({"type": "top_p", "temperature": 0.7}, TopP(temperature=0.7, top_p=0.95)),
        ({"type": "top_p", "temperature": None, "top_p": 0.5}, TopP(temperature=None, top_p=0.5)),
        ({"type": "top_p", "temperature": 0.1, "top_p": None}, TopP(temperature=0.1, top_p=None)),
        ({"type": "top_k", "top_k": 1}, TopK(top_k=1)),
    ],
)
def test_a_strategy_is_kept_as_it_was_sent(strategy: dict[str, Any], expected: Greedy | TopP | TopK) -> None:
    config = config_of(sampling_params={"strategy": strategy})
    assert SamplingParams(strategy=expected) == config.sampling_params
    assert config == AgentConfig.model_validate_json(config.model_dump_json())


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sampling_params": {"strategy": {"type": "top_p"}}}, "temperature"),
        ({"sampling_params": {"strategy": {"type": "top_p", "temperature": 0}}}, "temperature"),
        ({"sampling_params": {"strategy": {"type": "top_p", "temperature": -1}}}, "temperature"),
        ({"sampling_params": {"strategy": {"type": "top_k"}}}, "top_k"),
        ({"sampling_params": {"strategy": {"type": "top_k", "top_k": 0}}}, "top_k"),
        ({"sampling_params": {"strategy": {"type": "beam"}}}, "strategy"),
        ({"sampling_params": {"max_tokens": -1}}, "max_tokens"),
        ({"max_infer_iters": 0}, "max_infer_iters"),
        ({"tool_config": {"system_message_behavior": "drop"}}, "system_message_behavior"),
        ({"tool_config": {"tool_prompt_format": "xml"}}, "tool_prompt_format"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"toolgroups": [{"name": "g"}]}, "args"),
        ({"client_tools": [{"description": "nameless"}]}, "name"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": TOO_DEEP}}, "json_schema"),
        ({"toolgroups": [{"name": "g", "args": TOO_DEEP}]}, "args"),
        ({"client_tools": [{"name": "t", "metadata": TOO_DEEP}]}, "metadata"),
    ],
)
def test_a_value_that_the_contract_excludes_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        config_of(**fields)
    assert field in {part for error in refused.value.errors() for part in error["loc"]}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"type": "json_schema", "json_schema": {"type": "object"}}, JsonSchemaFormat(json_schema={"type": "object"})),
        ({"type": "grammar", "bnf": {"root": "x"}}, GrammarFormat(bnf={"root": "x"})),
    ],
)
def test_a_response_format_is_a_json_schema_or_a_grammar(sent: dict[str, Any], expected: object) -> None:
    assert expected == config_of(response_format=sent).response_format


def test_a_toolgroup_is_a_name_or_a_name_with_arguments() -> None:
    toolgroups = config_of(toolgroups=["g", "g/t", {"name": "h", "args": {"k": None}}]).toolgroups
    assert ("g", "g/t", ToolGroupWithArgs(name="h", args={"k": None})) == toolgroups
    assert [toolgroup_name(toolgroup) for toolgroup in toolgroups] == ["g", "g/t", "h"]


def test_a_parameter_of_a_client_tool_is_required_by_default() -> None:
    parameter = {"name": "p", "parameter_type": "str", "description": "d"}
    filled = {"required": True, "default": None}
    (tool,) = config_of(client_tools=[{"name": "t", "parameters": [parameter | {"required": None}]}]).client_tools
    serialised = json.loads(tool.model_dump_json())
    assert {"name": "t", "description": None, "parameters": [parameter | filled], "metadata": None} == serialised


@pytest.mark.parametrize("field", ["tool_choice", "tool_prompt_format"])
@pytest.mark.parametrize("sent", [{}, {"tool_config": None}], ids=["left out", "null"])
def test_a_deprecated_field_fills_the_tool_config_and_is_kept_as_well(field: str, sent: dict[str, None]) -> None:
    value = {"tool_choice": "required", "tool_prompt_format": "json"}[field]
    config = config_of(**{field: value}, **sent)
    assert ToolConfig(**{field: value}) == config.tool_config
    assert value == getattr(config, field)


@pytest.mark.parametrize("field", ["tool_choice", "tool_prompt_format"])
def test_a_deprecated_override_changes_only_its_part_of_the_agents_tool_config(field: str) -> None:
    agent = CONFIG.model_copy(update={"tool_config": ToolConfig(tool_choice="none", system_message_behavior="replace")})
    value = {"tool_choice": "required", "tool_prompt_format": "json"}[field]
    changed = overrides_of(**{field: value}).applied_to(agent)
    assert agent.tool_config.model_copy(update={field: value}) == changed.tool_config


def test_a_deprecated_field_may_repeat_the_tool_config() -> None:
    tool_config = {"tool_choice": "required", "tool_prompt_format": "json"}
    assert ToolConfig(**tool_config) == config_of(tool_config=tool_config, **tool_config).tool_config
    assert ToolConfig(**tool_config) == overrides_of(tool_config=tool_config, **tool_config).tool_config


@pytest.mark.parametrize("parsed", [config_of, overrides_of])
@pytest.mark.parametrize("tool_config", [{}, {"tool_choice": "none", "tool_prompt_format": "python_list"}])
@pytest.mark.parametrize(
    ("deprecated", "sentence"),
    [
        ({"tool_choice": "required"}, "tool_choice is deprecated. Use tool_choice in tool_config instead."),
        (
            {"tool_prompt_format": "json"},
            "tool_prompt_format is deprecated. Use tool_prompt_format in tool_config instead.",
        ),
    ],
)
def test_a_deprecated_field_that_contradicts_is_refused_in_the_words_of_the_contract(
    parsed: Any, tool_config: dict[str, str], deprecated: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        parsed(tool_config=tool_config, **deprecated)
    assert [f"Value error, {sentence}"] == [error["msg"] for error in refused.value.errors()]


CONFIG = config_of(
    sampling_params={"strategy": {"type": "top_k", "top_k": 3}},
    input_shields=["i"],
    output_shields=["o"],
    toolgroups=["g", {"name": "h", "args": {"k": 1}}],
    client_tools=[{"name": "t"}],
    tool_config={"tool_choice": "required", "tool_prompt_format": "json", "system_message_behavior": "replace"},
    max_infer_iters=3,
    name="n",
    enable_session_persistence=True,
    response_format={"type": "json_schema", "json_schema": {}},
)
OVERRIDING: dict[str, Any] = {
    "instructions": "Be long.",
    "sampling_params": SamplingParams(),
    "input_shields": ("j",),
    "output_shields": (),
    "client_tools": (ToolDef(name="u"),),
    "tool_config": ToolConfig(),
    "max_infer_iters": 10,
}


def test_overrides_left_out_or_null_change_nothing() -> None:
    assert TurnOverrides().applied_to(CONFIG) == CONFIG
    assert TurnOverrides() == overrides_of(**dict.fromkeys(TurnOverrides.model_fields))


@pytest.mark.parametrize("field", OVERRIDING)
def test_an_override_replaces_its_field_and_no_other(field: str) -> None:
    overridden = TurnOverrides(**{field: OVERRIDING[field]}).applied_to(CONFIG)
    assert CONFIG.model_copy(update={field: OVERRIDING[field]}) == overridden


def test_every_field_a_turn_may_override_is_tried() -> None:
    assert set(TurnOverrides.model_fields) == {*OVERRIDING, "toolgroups", "tool_choice", "tool_prompt_format"}


def test_toolgroups_of_a_turn_are_in_addition_to_the_agents() -> None:
    present, new = ToolGroupWithArgs(name="h", args={"k": 1}), ToolGroupWithArgs(name="h", args={"k": 2})
    overridden = TurnOverrides(toolgroups=("x", "g", present, new)).applied_to(CONFIG)
    assert CONFIG.model_copy(update={"toolgroups": ("g", present, "x", new)}) == overridden
    assert TurnOverrides(toolgroups=()).applied_to(CONFIG) == CONFIG


def test_a_deprecated_field_of_a_turn_takes_effect() -> None:
    assert overrides_of(tool_choice="none").applied_to(CONFIG).tool_config.tool_choice == "none"
    assert overrides_of(tool_prompt_format="json").applied_to(CONFIG).tool_config.tool_prompt_format == "json"


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CITY = {"name": "city", "parameter_type": "str", "description": "which"}


def complaint(**fields: Any) -> tuple[tuple[int | str, ...], str]:
    """Return the location and the message of the error for a client tool with these fields."""
    with pytest.raises(ValidationError) as refused:
        config_of(client_tools=[{"name": "t", **fields}])
    (error,) = refused.value.errors()
    return error["loc"], error["msg"]


def test_a_client_tool_is_serialised_with_the_schemas_that_were_sent_and_no_others() -> None:
    sent = [{"name": "t", "input_schema": SCHEMA, "output_schema": {"type": "number"}}, {"name": "u"}]
    nulls = {"description": None, "parameters": None, "metadata": None}
    assert [nulls | tool for tool in sent] == wired(config_of(client_tools=sent))["client_tools"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {}},
        {"type": "string"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"city": "string"}},
        {"type": "object", "required": True},
        {"type": "object", "required": [1]},
        {"type": "object", "$defs": TOO_DEEP},
    ],
    ids=["empty", "no type", "text", "or null", "list", "no schema", "flag", "number", "too deep"],
)
def test_a_schema_of_another_type_than_object_is_refused_by_name(schema: dict[str, Any]) -> None:
    assert complaint(input_schema=schema)[0] == ("client_tools", 0, "input_schema")


@pytest.mark.parametrize(
    ("parameters", "odd"), [([CITY, CITY | {"name": "day"}], "day"), ([CITY | {"name": "zone"}], "city")]
)
def test_parameters_and_a_schema_that_name_others_are_refused(parameters: list[Any], odd: str) -> None:
    loc, why = complaint(input_schema=SCHEMA, parameters=parameters)
    assert loc == ("client_tools", 0)
    assert repr(odd) in why


@pytest.mark.parametrize("parameters", [None, [], [CITY]])
def test_parameters_that_agree_with_a_schema_may_stand_beside_it(parameters: Any) -> None:
    (tool,) = config_of(client_tools=[{"name": "t", "input_schema": SCHEMA, "parameters": parameters}]).client_tools
    assert tool.input_schema == SCHEMA


def test_a_client_tool_in_a_toolgroup_is_refused_by_name() -> None:
    loc, why = complaint(toolgroup_id="builtin::clock")
    assert loc == ("client_tools", 0, "toolgroup_id")
    assert "toolgroups" in why
    assert config_of(client_tools=[{"name": "t"}]) == config_of(client_tools=[{"name": "t", "toolgroup_id": None}])
