"""Our question to a model, as the arguments of Bedrock's Converse.

Covers: adapters/models/bedrock/bedrock_wire
"""

import json
from typing import Any

import pytest

from turnstone.adapters.models.bedrock.bedrock_wire import (
    BedrockOptions,
    ConverseRequest,
    closed_objects,
    converse_request,
)
from turnstone.domain.agents.agents import GrammarFormat, JsonSchemaFormat, SamplingParams, Strategy, TopK, TopP
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolParameter

CLAUDE = "eu.anthropic.claude-x-v1:0"
CACHE_POINT = {"cachePoint": {"type": "default"}}
HELLO = UserMessage(content="hello")
FIND = ToolDef(name="find", description="Find it.", input_schema={"type": "object", "properties": {}})
FIND_SPEC = {
    "toolSpec": {
        "name": "find",
        "description": "Find it.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
CALLED = (
    HELLO,
    CompletionMessage(
        content="",
        stop_reason="end_of_turn",
        tool_calls=(ToolCall(call_id="c1", tool_name="look.up", arguments={}),),
    ),
    ToolResponseMessage(call_id="c1", content="done"),
)


def question(*messages: Message, options: BedrockOptions | None = None, **fields: Any) -> ConverseRequest:
    request = InferenceRequest(**{"model": CLAUDE, "messages": messages or (HELLO,), **fields})
    return converse_request(request, options or BedrockOptions())


def arguments(*messages: Message, **fields: Any) -> dict[str, Any]:
    return question(*messages, **fields).arguments


def test_a_plain_question_requests_a_greedy_answer_and_nothing_else() -> None:
    assert arguments() == {
        "modelId": CLAUDE,
        "messages": [{"role": "user", "content": [{"text": "hello"}]}],
        "inferenceConfig": {"temperature": 0.0},
    }


# ---- the system's messages


def test_the_systems_messages_are_apart_and_blank_ones_are_left_out() -> None:
    system = [SystemMessage(content=content) for content in ("be kind", " \n", "be brief")]
    request = arguments(system[0], HELLO, *system[1:])
    assert request["system"] == [{"text": "be kind"}, {"text": "be brief"}]
    assert [message["role"] for message in request["messages"]] == ["user"]
    assert "system" not in arguments(SystemMessage(content=""), HELLO)


def test_cache_points_come_behind_the_tools_and_the_systems_messages_if_enabled() -> None:
    messages = (SystemMessage(content="be kind"), HELLO)
    request = arguments(*messages, tools=(FIND,), options=BedrockOptions(has_cache_points=True))
    assert request["system"] == [{"text": "be kind"}, CACHE_POINT]
    assert request["toolConfig"]["tools"] == [FIND_SPEC, CACHE_POINT]
    assert "cachePoint" not in str(arguments(*messages, tools=(FIND,)))
    assert "cachePoint" not in str(arguments(options=BedrockOptions(has_cache_points=True)))


def test_a_guardrail_is_named_if_the_operator_named_one() -> None:
    options = BedrockOptions(guardrail_id="gr-1", guardrail_version="3")
    expected = {"guardrailIdentifier": "gr-1", "guardrailVersion": "3"}
    assert arguments(options=options)["guardrailConfig"] == expected


# ---- tools


def test_a_tool_is_sent_with_its_schema_under_a_name_that_bedrock_takes() -> None:
    parameter = ToolParameter(name="query", parameter_type="str", description="what")
    request = question(tools=(ToolDef(name="look.up", parameters=(parameter,)), FIND))
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what"}},
        "required": ["query"],
    }
    lookup = {"toolSpec": {"name": "look_up", "inputSchema": {"json": schema}}}
    assert request.arguments["toolConfig"] == {"tools": [lookup, FIND_SPEC]}
    assert request.tool_names.name_of("look_up") == "look.up"
    assert request.may_call


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("auto", None), ("required", {"any": {}}), ("find", {"tool": {"name": "find"}})],
)
def test_a_tool_choice_is_auto_any_or_a_tools_name(choice: str, expected: object) -> None:
    assert arguments(tools=(FIND,), tool_choice=choice)["toolConfig"].get("toolChoice") == expected


def test_the_choice_of_a_tool_names_it_as_the_tool_is_named() -> None:
    tools = (ToolDef(name="look/up"), ToolDef(name="look.up"))
    request = arguments(tools=tools, tool_choice="look.up")["toolConfig"]
    assert request["toolChoice"]["tool"]["name"] == request["tools"][1]["toolSpec"]["name"] != "look_up"


@pytest.mark.parametrize("fields", [{"tools": (FIND,), "tool_choice": "none"}, {"tool_choice": "required"}])
def test_without_earlier_calls_no_tools_are_sent_if_none_may_be_called(fields: dict[str, Any]) -> None:
    request = question(**fields)
    assert "toolConfig" not in request.arguments
    assert not request.may_call


def test_with_earlier_calls_the_tools_are_sent_although_none_may_be_called() -> None:
    request = question(*CALLED, tools=(FIND,), tool_choice="none")
    assert request.arguments["toolConfig"] == {"tools": [FIND_SPEC]}
    assert not request.may_call


def test_with_earlier_calls_and_no_tools_those_of_the_calls_are_sent_as_not_available() -> None:
    request = question(*CALLED, *CALLED)
    (tool,) = request.arguments["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "look_up"
    assert "Not available" in tool["toolSpec"]["description"]
    assert not request.may_call


# ---- sampling


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (TopP(temperature=0.7, top_p=0.9), {"temperature": 0.7, "topP": 0.9}),
        (TopP(temperature=None), {"topP": 0.95}),
        (TopP(temperature=0.7, top_p=None), {"temperature": 0.7}),
        (TopP(temperature=None, top_p=None), None),
    ],
)
def test_a_strategy_is_sent_without_its_nulls(strategy: Strategy, expected: dict[str, float] | None) -> None:
    assert arguments(sampling=SamplingParams(strategy=strategy)).get("inferenceConfig") == expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (CLAUDE, {"top_k": 40}),
        ("mistral.mistral-x", {"top_k": 40}),
        ("cohere.command-x", {"k": 40}),
        ("us.amazon.nova-x", {"inferenceConfig": {"topK": 40}}),
    ],
)
def test_top_k_is_sent_as_the_models_maker_calls_it(model: str, expected: dict[str, Any]) -> None:
    request = arguments(model=model, sampling=SamplingParams(strategy=TopK(top_k=40)))
    assert request["additionalModelRequestFields"] == expected
    assert "inferenceConfig" not in request


def test_limits_are_sent_only_where_there_are_some() -> None:
    request = arguments(sampling=SamplingParams(max_tokens=7, stop=("a", "b")))
    assert request["inferenceConfig"] == {"temperature": 0.0, "maxTokens": 7, "stopSequences": ["a", "b"]}
    assert arguments(sampling=SamplingParams(stop=()))["inferenceConfig"] == {"temperature": 0.0}


@pytest.mark.parametrize(
    ("fields", "location"),
    [
        ({"sampling": SamplingParams(repetition_penalty=1.1)}, ("sampling_params", "repetition_penalty")),
        ({"sampling": SamplingParams(stop=("a", ""))}, ("sampling_params", "stop")),
        (
            {"sampling": SamplingParams(strategy=TopK(top_k=4)), "model": "meta.llama-x"},
            ("sampling_params", "strategy", "top_k"),
        ),
        ({"response_format": GrammarFormat(bnf={})}, ("response_format", "type")),
    ],
)
def test_a_feature_that_converse_does_not_offer_is_refused_by_its_name(
    fields: dict[str, Any], location: object
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        arguments(**fields)
    assert caught.value.location == location


# ---- the answer's format


def test_a_json_schema_is_sent_as_text_under_its_title() -> None:
    schema = {"title": "My Answer", "type": "object", "additionalProperties": False}
    request = arguments(response_format=JsonSchemaFormat(json_schema=schema))["outputConfig"]
    named = request["textFormat"]["structure"]["jsonSchema"]
    assert request == {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": named}}}
    assert (named["name"], json.loads(named["schema"])) == ("My_Answer", schema)
    untitled = arguments(response_format=JsonSchemaFormat(json_schema={}))["outputConfig"]
    assert untitled["textFormat"]["structure"]["jsonSchema"]["name"] == "response"


def test_objects_that_list_their_properties_are_closed_unless_they_define_others() -> None:
    inner = {"type": "object", "properties": {"type": {"type": "string"}}}
    closed = {**inner, "additionalProperties": False}
    schema = {
        "properties": {"a": inner, "properties": inner, "list": {"type": "array", "items": inner}},
        "$defs": {"d": inner},
        "anyOf": [inner, True],
        "additionalProperties": True,
    }
    assert closed_objects(schema) == {
        "properties": {"a": closed, "properties": closed, "list": {"type": "array", "items": closed}},
        "$defs": {"d": closed},
        "anyOf": [closed, True],
        "additionalProperties": True,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]},
        {"oneOf": [{"properties": {"a": {}}}]},
        {"const": {"properties": {}}},
    ],
)
def test_a_schema_that_closing_would_change_the_meaning_of_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert closed_objects(schema) == schema
