"""Every parameter of `Responses.create` of OpenAI's client has an effect, or is refused by its name.

Covers: dialects/openai/responses/requests
"""

from __future__ import annotations

import ast
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.needs import need_clients
from tests.support.server.servers import ROOT
from turnstone.dialects.openai.responses.requests import REFUSED, CreateResponse
from turnstone.domain.agents.agents import Greedy, TopP
from turnstone.domain.responses.requests import NewResponse

SOURCE = ROOT / ".clients/openai/openai/resources/responses/responses.py"
OF_THE_CALL = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}, "strict": True}
SEARCH = {"type": "file_search", "vector_store_ids": ["vs_a"]}
SCHEMA = {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": True}


def sent(**more: Any) -> NewResponse:
    return CreateResponse.model_validate({"model": "m", "input": "hello", **more}).to_new()


# a value of each parameter that has an effect, with the check of that
HONOURED: dict[str, tuple[Any, Any]] = {
    "background": (True, lambda new: new.sent.echo["background"] is new.sent.is_in_background is True),
    "conversation": ({"id": "conv_a"}, lambda new: new.conversation == new.sent.conversation == "conv_a"),
    "include": (["file_search_call.results"], lambda new: new.sent.include == ("file_search_call.results",)),
    "input": ("other", lambda new: new.messages[0].content == "other"),
    "instructions": ("Be kind.", lambda new: new.config.instructions == new.sent.echo["instructions"] == "Be kind."),
    "max_output_tokens": (7, lambda new: new.config.sampling_params.max_tokens == new.policy.max_output_tokens == 7),
    "max_tool_calls": (7, lambda new: new.policy.max_tool_calls == new.sent.echo["max_tool_calls"] == 7),
    "metadata": ({"a": "b"}, lambda new: new.sent.echo["metadata"] == {"a": "b"}),
    "model": ("agent/x", lambda new: new.agent_id == "x"),
    "parallel_tool_calls": (False, lambda new: new.policy.calls_per_inference == 1),
    "previous_response_id": ("resp_a", lambda new: new.previous == "resp_a"),
    "prompt_cache_key": ("k", lambda new: new.extras == {"prompt_cache_key": "k"}),
    "prompt_cache_retention": ("24h", lambda new: new.extras == {"prompt_cache_retention": "24h"}),
    "reasoning": ({"effort": "low"}, lambda new: new.extras == {"reasoning_effort": "low"}),
    "safety_identifier": ("s", lambda new: new.extras == {"safety_identifier": "s"}),
    "service_tier": ("flex", lambda new: new.extras == {"service_tier": "flex"}),
    "store": (False, lambda new: new.sent.echo["store"] is new.is_stored is False),
    "stream": (True, lambda new: new.messages),
    "stream_options": ({"include_obfuscation": False}, lambda new: new.messages),
    "temperature": (0.0, lambda new: new.config.sampling_params.strategy == Greedy()),
    "text": ({"format": SCHEMA}, lambda new: new.config.response_format.json_schema == {"type": "object"}),
    "tool_choice": ("none", lambda new: new.config.tool_config.tool_choice == "none"),
    "tools": ([TOOL], lambda new: (new.config.client_tools[0].name, [*new.tool_extras]) == ("add", ["add"])),
    "top_logprobs": (0, lambda new: new.sent.echo["top_logprobs"] == 0),
    "top_p": (0.5, lambda new: new.config.sampling_params.strategy == TopP(temperature=None, top_p=0.5)),
    "truncation": ("auto", lambda new: not new.needs_whole_history and new.sent.echo["truncation"] == "auto"),
    "user": ("ann", lambda new: new.extras == {"user": "ann"}),
}
NEEDS = {"stream_options": {"stream": True}}
# values of parameters that are honoured in part
REFUSED_VALUES: tuple[tuple[str, Any], ...] = (
    ("conversation", {"id": "conv_a", "name": "b"}),
    ("include", ["computer_call_output.output.image_url"]),
    ("include", ["message.output_text.logprobs"]),
    ("reasoning", {"summary": "auto"}),
    ("stream_options", {"include_obfuscation": False}),
    ("tool_choice", {"type": "mcp", "server_label": "a"}),
    ("tool_choice", {"type": "function", "name": "none"}),
    ("tool_choice", "required"),
    ("tools", [{"type": "shell"}]),
    ("tools", [SEARCH, SEARCH]),
    ("tools", [{**TOOL, "name": "file_search"}, SEARCH]),
    ("tools", [TOOL, TOOL]),
    ("top_logprobs", 2),
    ("unheard_of", 1),
)


def parameters() -> set[str]:
    need_clients("openai")
    tree = ast.parse(SOURCE.read_text())
    (resource,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Responses")
    created = [each for each in resource.body if isinstance(each, ast.FunctionDef) and each.name == "create"]
    return {each.arg for each in (*created[0].args.args, *created[0].args.kwonlyargs)} - OF_THE_CALL


def test_every_parameter_is_in_one_of_the_tables() -> None:
    assert parameters() == HONOURED.keys() | REFUSED.keys()
    assert not HONOURED.keys() & REFUSED.keys()
    assert CreateResponse.model_fields.keys() == parameters() | {"max_infer_iters"}


@pytest.mark.parametrize("name", sorted(HONOURED))
def test_a_parameter_has_its_effect(name: str) -> None:
    value, has_effect = HONOURED[name]
    assert has_effect(sent(**{name: value}, **NEEDS.get(name, {})))
    assert name in ("input", "model") or sent(**{name: None}) == sent()


@pytest.mark.parametrize(("name", "value"), [*((name, {"a": 1}) for name in REFUSED), *REFUSED_VALUES])
def test_any_other_parameter_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        sent(**{name: value})
    (problem,) = refused.value.errors()
    assert name in (*problem["loc"], problem["msg"].removeprefix("Value error, ").partition(":")[0])


@pytest.mark.parametrize(
    ("name", "value", "named"), [("conversation", "conv_a", "store"), ("background", True, "background")]
)
def test_a_parameter_that_needs_a_stored_response_is_refused_without_one(name: str, value: Any, named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        sent(store=False, **{name: value})
    assert [problem["loc"] for problem in refused.value.errors()] == [(named,)]


def test_an_agents_configuration_is_changed_by_what_was_sent_alone() -> None:
    agent = sent(instructions="Be brief.", tools=[TOOL], temperature=0.5).config.model_copy(update={"model": "big"})
    assert sent(model="agent/x").config_of(agent) == agent
    changed = sent(model="agent/x", instructions="Be kind.", tools=[{**TOOL, "name": "sub"}]).config_of(agent)
    assert (changed.model, changed.instructions) == ("big", "Be kind.")
    assert [tool.name for tool in changed.client_tools] == ["add", "sub"]
    assert changed.sampling_params == agent.sampling_params


def test_allowed_tools_are_the_only_ones_that_are_offered() -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}
    new = sent(tools=[TOOL, {**TOOL, "name": "sub"}], tool_choice=choice)
    assert [tool.name for tool in new.config.client_tools] == ["add"]
    assert new.config.tool_config.tool_choice == "required"
    assert [tool["name"] for tool in new.sent.echo["tools"]] == ["add", "sub"]


MCP = {"type": "mcp", "server_label": "birds", "server_url": "https://birds.example/mcp"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "never"),
        ({"require_approval": None}, "never"),
        ({"require_approval": "always"}, "always"),
        ({"require_approval": {"always": ["erase"]}}, {"always": ["erase"]}),
    ],
)
def test_an_mcp_server_without_an_approval_of_its_own_gets_that_of_the_dialect(given: Any, expected: Any) -> None:
    request = CreateResponse.model_validate({"model": "m", "input": "hello", "tools": [{**MCP, **given}]})
    assert request.to_new().sent.echo["tools"][0]["require_approval"] == ("always" if expected == "never" else expected)
    assert request.to_new(is_approved=True).sent.echo["tools"][0]["require_approval"] == expected


# settings of hosted tools that this server has not, with the field that the refusal names
WRONG_SETTINGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({**SEARCH, "vector_store_ids": []}, "vector_store_ids"),
    ({**SEARCH, "max_num_results": 51}, "max_num_results"),
    ({**SEARCH, "filters": {"type": "like", "key": "a", "value": "b"}}, "filters"),
    ({**SEARCH, "ranking_options": {"ranker": "best"}}, "ranker"),
    ({**SEARCH, "ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}}, "hybrid_search"),
    ({"type": "web_search", "search_context_size": "huge"}, "search_context_size"),
    ({"type": "web_search", "user_location": {"type": "approximate", "city": "Bern"}}, "city"),
    ({"type": "web_search", "filters": {"allowed_domains": ["https://a.example"]}}, "allowed_domains"),
    ({"type": "web_search", "external_web_access": False}, "external_web_access"),
    ({"type": "web_search_preview", "search_content_types": ["image"]}, "search_content_types"),
    ({"type": "code_interpreter"}, "container"),
    ({"type": "code_interpreter", "container": "cntr_1"}, "container"),
    ({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}, "file_ids"),
    ({"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g"}}, "memory_limit"),
    ({"type": "image_generation", "partial_images": 2}, "partial_images"),
    ({"type": "image_generation", "quality": "high"}, "quality"),
    ({"type": "image_generation", "model": "a"}, "model"),
    ({"type": "image_generation", "output_format": "webp"}, "output_format"),
)


@pytest.mark.parametrize(("tool", "name"), WRONG_SETTINGS)
def test_a_setting_of_a_hosted_tool_is_refused_by_its_name(tool: dict[str, Any], name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        sent(tools=[TOOL, tool])
    problem = refused.value.errors()[0]
    assert problem["loc"][:2] == ("tools", 1)
    assert name in problem["loc"] or name in problem["msg"]


def test_hosted_tools_become_toolgroups_with_fixed_arguments() -> None:
    web = {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}, "search_context_size": "medium"}
    location = {"type": "approximate", "city": None}
    new = sent(
        tools=[
            TOOL,
            {**SEARCH, "max_num_results": 3},
            {**web, "user_location": location},
            {"type": "code_interpreter", "container": "auto"},
            {"type": "image_generation", "quality": "auto"},
        ]
    )
    groups = {group.name: group.args for group in new.config.toolgroups if not isinstance(group, str)}
    assert groups == {
        "builtin::file_search": {"vector_store_ids": ["vs_a"], "max_num_results": 3},
        "builtin::websearch": {"citations": True, "allowed_domains": ["a.example"]},
        "builtin::code_interpreter": {},
        "builtin::photogen": {},
    }
    assert new.tool_indexes == (1, 2, 3, 4)
    assert new.sent.echo["tools"][3]["container"] == {"type": "auto", "file_ids": []}


@pytest.mark.parametrize(("size", "expected"), [("low", 1), ("medium", None), (None, None), ("high", 6)])
def test_the_size_of_the_context_of_a_web_search_is_a_number_of_results(size: str | None, expected: int | None) -> None:
    new = sent(tools=[{"type": "web_search", "search_context_size": size}])
    (group,) = new.config.toolgroups
    assert not isinstance(group, str)
    assert group.args.get("max_num_results") == expected
    assert new.sent.echo["tools"][0]["search_context_size"] == (size or "medium")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "file_search"}, ("file_search", 1)),
        ({"type": "web_search_preview"}, ("brave_search", 1)),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "file_search"}]}, ("auto", 0)),
    ],
)
def test_hosted_tools_can_be_chosen_or_left_out(choice: dict[str, Any], expected: tuple[str, int]) -> None:
    new = sent(tools=[TOOL, SEARCH, {"type": "web_search"}], tool_choice=choice)
    assert (new.config.tool_config.tool_choice, len(new.config.client_tools)) == expected
    with pytest.raises(ValidationError, match="tool_choice"):
        sent(tools=[TOOL], tool_choice=choice)
