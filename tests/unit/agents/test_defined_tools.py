"""Tools that agents define in the form of September 2024, translated to today's.

Covers: domain/agents/agents, domain/agents/defined_tools, domain/tools/agent_tools, domain/tools/memory_tools,
  domain/tools/tool_runs,
  domain/tools/tool_schemas, domain/tools/tool_secrets, domain/tools/tools
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.agents.defined_tools import memory_tool_of, translated_tools
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.agent_tools import MASK
from turnstone.domain.tools.memory_tools import JoinedQuery
from turnstone.domain.tools.tool_runs import OfferedTool
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tool_secrets import secrets_of, unmasked
from turnstone.domain.tools.tools import ToolDef

SEARCH = {"type": "brave_search", "engine": "bing", "api_key": "sk-1"}
SIGHT = {
    "type": "function_call",
    "function_name": "look",
    "description": "Look at a place.",
    "parameters": {
        "at": {"param_type": "str", "description": "Where."},
        "times": {"param_type": "int", "required": False, "default": 1},
    },
}
THERE = {"url": "https://example.com/{at}", "method": "POST", "headers": {"x-key": "sk-2", "x-count": 3}}


def config_of(*tools: dict[str, Any], **fields: Any) -> AgentConfig:
    """Return the configuration a client sends."""
    sent = {"model": "m", "instructions": "", "tools": tools, **fields}
    return AgentConfig.model_validate_json(json.dumps(sent))


def only(config: AgentConfig) -> OfferedTool:
    (tool,) = translated_tools(config).server.values()
    return tool


@pytest.mark.parametrize(
    ("kind", "group", "runs_as"),
    [
        ("brave_search", "builtin::websearch", "web_search"),
        ("wolfram_alpha", "builtin::wolfram_alpha", None),
        ("photogen", "builtin::photogen", None),
        ("code_interpreter", "builtin::code_interpreter", None),
    ],
)
def test_a_built_in_tool_is_run_by_its_toolgroup_under_its_name_for_the_model(
    kind: str, group: str, runs_as: str | None
) -> None:
    tool = only(config_of({"type": kind}))
    assert (tool.definition.name, tool.toolgroup, tool.runs_as) == (kind, group, runs_as)
    takes = "code" if kind == "code_interpreter" else "query"
    assert input_schema_of(tool.definition)["required"] == [takes]
    assert translated_tools(config_of({"type": kind})).client == {}


def test_an_engine_and_a_key_go_with_the_tool_and_an_empty_key_is_none() -> None:
    options = only(config_of(SEARCH)).options
    assert (options.engine, options.api_key) == ("bing", "sk-1")
    assert only(config_of({"type": "brave_search"})).options.engine == "brave"
    assert only(config_of({"type": "wolfram_alpha", "api_key": "sk-1"})).options.api_key == "sk-1"
    assert only(config_of({"type": "wolfram_alpha", "api_key": ""})).options.api_key is None


def test_a_function_is_a_client_tool_with_the_parameters_that_were_sent() -> None:
    config = config_of(SIGHT)
    (tool,) = translated_tools(config).client.values()
    assert isinstance(tool, ToolDef)
    assert (tool.name, tool.description) == ("look", "Look at a place.")
    assert input_schema_of(tool) == {
        "type": "object",
        "properties": {
            "at": {"type": "string", "description": "Where."},
            "times": {"type": "integer", "description": "", "default": 1},
        },
        "required": ["at"],
    }
    assert translated_tools(config).server == {}


def test_code_that_is_not_run_inline_is_a_client_tool() -> None:
    config = config_of({"type": "code_interpreter", "enable_inline_code_execution": False})
    assert list(translated_tools(config).client) == ["code_interpreter"]
    assert translated_tools(config).server == {}


@pytest.mark.parametrize("tool", [SEARCH, {"type": "code_interpreter", "enable_inline_code_execution": False}, SIGHT])
def test_a_tool_with_remote_execution_is_run_there_and_in_no_group(tool: dict[str, Any]) -> None:
    config = config_of({**tool, "remote_execution": THERE})
    found = only(config)
    assert (found.toolgroup, found.runs_as) == ("", None)
    assert found.options.remote_execution is not None
    headers = found.options.remote_execution.headers
    assert {name: value.get_secret_value() for name, value in headers.items()} == {"x-key": "sk-2", "x-count": "3"}
    assert "sk-2" not in repr(config)
    assert translated_tools(config).client == {}


def test_shields_of_a_tool_go_with_it() -> None:
    tool = only(config_of({**SEARCH, "input_shields": ["in"], "output_shields": ["out"]}))
    assert (tool.input_shields, tool.output_shields) == (("in",), ("out",))


@pytest.mark.parametrize(
    ("tools", "fields", "location"),
    [
        ((SEARCH, {"type": "brave_search"}), {}, ("tools", 1, "type")),
        ((SIGHT, {**SIGHT, "remote_execution": THERE}), {}, ("tools", 1, "function_name")),
        (({**SIGHT, "function_name": "photogen"}, {"type": "photogen"}), {}, ("tools", 1, "type")),
        ((SEARCH, SIGHT), {"client_tools": [{"name": "look"}]}, ("tools", 1, "function_name")),
    ],
)
def test_names_that_clash_are_refused_at_their_location(
    tools: tuple[dict[str, Any], ...], fields: dict[str, Any], location: tuple[Any, ...]
) -> None:
    config = config_of(*tools, **fields)
    with pytest.raises(InvalidRequest) as refused:
        translated_tools(config)
    assert refused.value.location == location


def test_no_text_of_a_configuration_shows_its_secrets() -> None:
    config = config_of(SEARCH, {**SIGHT, "remote_execution": THERE})
    written = json.loads(config.model_dump_json())["tools"]
    assert written[0]["api_key"] == MASK
    assert written[1]["remote_execution"]["headers"] == {"x-key": MASK, "x-count": MASK}
    for text in (
        config.model_dump_json(),
        repr(config),
        str(config),
        repr(config.model_dump()),
        repr(only_both(config)),
    ):
        assert "sk-" not in text


def only_both(config: AgentConfig) -> tuple[OfferedTool, ...]:
    found = tuple(translated_tools(config).server.values())
    assert len(found) == 2
    return found


def test_the_written_form_and_its_secrets_make_the_whole_again() -> None:
    config = config_of({"type": "photogen"}, SEARCH, {**SIGHT, "remote_execution": THERE}, {"type": "wolfram_alpha"})
    fields = json.loads(config.model_dump_json())
    secrets = secrets_of(config.tools)
    assert secrets == {"1": {"api_key": "sk-1"}, "2": {"headers": {"x-key": "sk-2", "x-count": "3"}}}
    again = {**fields, "tools": unmasked(fields["tools"], secrets)}
    assert AgentConfig.model_validate(again) == config
    assert "sk-" not in json.dumps(fields)


@pytest.mark.parametrize(
    ("tool", "location"),
    [
        ({**SEARCH, "api_key": MASK}, ("tools", 0, "brave_search", "api_key")),
        ({"type": "wolfram_alpha", "api_key": MASK}, ("tools", 0, "wolfram_alpha", "api_key")),
        (
            {**SIGHT, "remote_execution": {**THERE, "headers": {"x-key": MASK}}},
            ("tools", 0, "function_call", "remote_execution", "headers", "x-key"),
        ),
    ],
)
def test_a_mask_that_comes_back_instead_of_a_secret_is_refused(tool: dict[str, Any], location: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        config_of(tool)
    (problem,) = refused.value.errors(include_url=False)
    assert problem["loc"] == location
    assert "stands for a secret in answers" in problem["msg"]


@pytest.mark.parametrize("headers", [{"x-key": "sk\r\nHost: y"}, {"x key": "v"}, {"": "v"}, {"x": "é"}, {"x": True}])
def test_a_header_that_can_not_be_sent_is_refused_and_not_repeated(headers: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        config_of({**SIGHT, "remote_execution": {**THERE, "headers": headers}})
    assert "sk" not in str(refused.value)


MEMORY = {
    "type": "memory",
    "memory_bank_configs": [
        {"type": "vector", "bank_id": "a"},
        {"type": "keyvalue", "bank_id": "b", "keys": ["k"]},
        {"type": "keyword", "bank_id": "c"},
        {"type": "graph", "bank_id": "d", "entities": ["e"]},
    ],
    "query_generator_config": {"type": "llm", "model": "m", "template": "{{ messages }}"},
    "max_tokens_in_context": 100,
    "max_chunks": 3,
}


def test_a_memory_tool_is_kept_as_sent_and_offered_to_no_model() -> None:
    config = config_of(MEMORY, SEARCH)
    assert json.loads(config.model_dump_json())["tools"][0] == {**MEMORY, "input_shields": [], "output_shields": []}
    offer = translated_tools(config)
    assert [tool.name for tool in offer.definitions] == ["brave_search"]
    assert secrets_of(config.tools) == {"1": {"api_key": "sk-1"}}
    found = memory_tool_of(config)
    assert found is not None
    assert [each.bank_id for each in found.memory_bank_configs] == ["a", "b", "c", "d"]
    assert memory_tool_of(config_of(SEARCH)) is None


def test_a_memory_tool_has_the_defaults_of_its_time() -> None:
    tool = memory_tool_of(config_of({"type": "memory", "query_generator_config": None}))
    assert tool is not None
    assert (tool.max_tokens_in_context, tool.max_chunks, tool.memory_bank_configs) == (4_096, 10, ())
    assert tool.query_generator_config == JoinedQuery(sep=" ")


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"memory_bank_configs": [{"type": "vector"}]}, ("memory_bank_configs", 0, "vector", "bank_id")),
        ({"memory_bank_configs": [{"type": "table", "bank_id": "a"}]}, ("memory_bank_configs", 0)),
        ({"query_generator_config": {"type": "custom"}}, ("query_generator_config", "custom", "tool")),
        ({"query_generator_config": {"type": "custom", "tool": "ask"}}, ("query_generator_config", "custom", "tool")),
        (
            {"query_generator_config": {"type": "llm", "model": "m", "template": "{% for %}"}},
            ("query_generator_config", "llm", "template"),
        ),
        ({"max_chunks": 0}, ("max_chunks",)),
        ({"max_tokens_in_context": 0}, ("max_tokens_in_context",)),
    ],
)
def test_a_memory_tool_that_can_not_work_is_refused_by_its_field(
    changes: dict[str, Any], location: tuple[Any, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        config_of({**MEMORY, **changes})
    assert refused.value.errors(include_url=False)[0]["loc"] == ("tools", 0, "memory", *location)


def test_a_second_memory_tool_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="one tool of the type 'memory'") as refused:
        translated_tools(config_of(MEMORY, SEARCH, MEMORY))
    assert refused.value.location == ("tools", 2, "type")


def test_an_agent_without_definitions_is_written_as_it_was_before_there_were_any() -> None:
    assert "tools" not in json.loads(config_of().model_dump_json())
