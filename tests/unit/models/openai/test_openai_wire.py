"""Our question to a model, as the body of an OpenAI chat-completions request.

Covers: adapters/models/openai/openai_wire
"""

import base64
import json

import pytest

from turnstone.adapters.models.openai.openai_wire import MOST_KEPT, _Wires, request_body, written
from turnstone.domain.agents.agents import GrammarFormat, JsonSchemaFormat, SamplingParams, Strategy, TopK, TopP
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolParameter
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
PICTURE = ImageItem(image=Image(url=Url(uri="https://example.com/a.png")))


def body_of(*messages: Message, **fields: object) -> dict:
    return request_body(InferenceRequest("m", messages or (UserMessage(content="hello"),), **fields))


def wired(message: Message) -> dict:
    return body_of(message)["messages"][0]


def test_a_plain_question_requests_a_greedy_stream_with_usage_and_nothing_else():
    assert body_of() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (TopP(temperature=0.7, top_p=0.9), {"temperature": 0.7, "top_p": 0.9}),
        (TopP(temperature=None), {"top_p": 0.95}),
        (TopP(temperature=0.7, top_p=None), {"temperature": 0.7}),
        (TopK(top_k=40), {"top_k": 40}),
    ],
)
def test_a_strategy_is_sent_without_its_nulls(strategy: Strategy, expected: dict):
    body = body_of(sampling=SamplingParams(strategy=strategy))
    assert {name: body[name] for name in ("temperature", "top_p", "top_k") if name in body} == expected


def test_limits_and_penalties_are_sent_only_when_they_differ_from_none():
    body = body_of(sampling=SamplingParams(max_tokens=7, repetition_penalty=1.1, stop=("a", "b")))
    assert (body["max_tokens"], body["repetition_penalty"], body["stop"]) == (7, 1.1, ["a", "b"])
    assert not {"max_tokens", "repetition_penalty", "stop"} & body_of(sampling=SamplingParams(stop=())).keys()


@pytest.mark.parametrize(
    ("parameter_type", "expected"),
    [
        ("str", "string"),
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("dict", "object"),
        ("Integer", "integer"),
        ("object", "object"),
        ("number", "number"),
        ("whatever", "string"),
        ("dict[str, Any]", "object"),
    ],
)
def test_a_parameter_type_has_a_python_or_a_json_name(parameter_type: str, expected: str):
    parameter = ToolParameter(name="p", parameter_type=parameter_type, description="d")
    tool = body_of(tools=(ToolDef(name="t", parameters=(parameter,)),))["tools"][0]
    assert tool["function"]["parameters"]["properties"]["p"]["type"] == expected


def test_a_tool_carries_its_description_required_names_and_defaults():
    tool = ToolDef(
        name="find",
        description="Find it.",
        parameters=(
            ToolParameter(name="query", parameter_type="str", description="what"),
            ToolParameter(name="limits", parameter_type="list", description="how", required=False, default=[1]),
        ),
    )
    assert body_of(tools=(tool,))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "Find it.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "what"},
                        "limits": {"type": "array", "items": {}, "description": "how", "default": [1]},
                    },
                    "required": ["query"],
                },
            },
        }
    ]


def test_a_tool_with_a_schema_is_sent_with_it_unchanged():
    schema = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"city": {"type": "string", "enum": ["Oslo", "Bergen"]}},
    }
    parameter = ToolParameter(name="city", parameter_type="int", description="which")
    tool = ToolDef(name="t", input_schema=schema, parameters=(parameter,), output_schema={"type": "number"})
    assert body_of(tools=(tool,))["tools"] == [{"type": "function", "function": {"name": "t", "parameters": schema}}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("required", "required"),
        ("none", "none"),
        ("find", {"type": "function", "function": {"name": "find"}}),
    ],
)
def test_a_tool_choice_is_a_word_or_a_tools_name(choice: str, expected: object):
    assert body_of(tools=(ToolDef(name="find"),), tool_choice=choice).get("tool_choice") == expected


def test_without_tools_neither_tools_nor_a_choice_are_sent():
    assert not {"tools", "tool_choice"} & body_of(tool_choice="required").keys()


def test_a_json_schema_is_sent_under_its_title():
    schema = {"title": "My Answer", "type": "object"}
    assert body_of(response_format=JsonSchemaFormat(json_schema=schema))["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "My_Answer", "schema": schema},
    }
    untitled = body_of(response_format=JsonSchemaFormat(json_schema={}))
    assert untitled["response_format"]["json_schema"]["name"] == "response"


def test_a_grammar_is_refused_rather_than_ignored():
    with pytest.raises(ModelFailed, match="json_schema"):
        body_of(response_format=GrammarFormat(bnf={}))


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("vllm", {"structured_outputs": {"grammar": "root ::= x"}, "guided_grammar": "root ::= x"}),
        ("llama.cpp", {"grammar": "root ::= x"}),
    ],
)
def test_a_grammar_is_in_the_fields_of_its_server(server, fields):
    grammar = GrammarFormat(bnf={"grammar": "root ::= x"})
    request = InferenceRequest("m", (UserMessage(content="hello"),), response_format=grammar)
    assert request_body(request, server) == {**body_of(), **fields}


def test_a_user_message_has_its_context_after_its_content():
    assert wired(UserMessage(content="question", context="facts"))["content"] == "question\n\nfacts"
    several = UserMessage(content=(TextItem(text="a"), TextItem(text="b")), context=TextItem(text="c"))
    assert wired(several)["content"] == "a\nb\n\nc"


def test_images_are_sent_by_address_or_as_data_between_the_texts():
    content = (TextItem(text="look"), PICTURE, ImageItem(image=Image(data=PNG)))
    assert wired(UserMessage(content=content, context="facts"))["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "facts"},
    ]


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x0a\x00\x00\x00WEBP", "image/webp"),
        (b"RIFF\x0a\x00\x00\x00WAVE", "image/png"),
        (b"", "image/png"),
    ],
)
def test_the_type_of_image_data_is_read_from_its_first_bytes(head: bytes, mime_type: str):
    data = base64.b64encode(head + bytes(30)).decode()
    url = wired(UserMessage(content=ImageItem(image=Image(data=data))))["content"][0]["image_url"]["url"]
    assert url == f"data:{mime_type};base64,{data}"


def test_image_data_that_is_no_base64_is_passed_on_for_the_server_to_judge():
    url = wired(UserMessage(content=ImageItem(image=Image(data="abc"))))["content"][0]["image_url"]["url"]
    assert url == "data:image/png;base64,abc"


def test_calls_are_sent_as_json_text_and_without_text_the_content_is_null():
    call = ToolCall(call_id="c1", tool_name="find", arguments={"query": "ü"})
    message = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call,))
    assert wired(message) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"query": "\\u00fc"}'}}
        ],
    }


@pytest.mark.parametrize("arguments", ["{broken", {"x": float("nan")}])
def test_arguments_that_are_no_json_are_sent_as_an_empty_object(arguments: object):
    call = ToolCall(call_id="c1", tool_name="find", arguments=arguments)
    message = CompletionMessage(content="hm", stop_reason="end_of_turn", tool_calls=(call,))
    assert wired(message)["content"] == "hm"
    assert wired(message)["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_assistant_without_calls_has_text_even_if_empty():
    assert wired(CompletionMessage(content="", stop_reason="end_of_turn")) == {"role": "assistant", "content": ""}


def test_a_tool_response_is_text_with_a_placeholder_for_each_image():
    message = ToolResponseMessage(call_id="c1", content=(TextItem(text="seen"), PICTURE))
    assert wired(message) == {"role": "tool", "tool_call_id": "c1", "content": "seen\n[image]"}


def test_a_system_message_is_text():
    content = (TextItem(text="be"), TextItem(text="kind"))
    assert wired(SystemMessage(content=content)) == {"role": "system", "content": "be\nkind"}


@pytest.mark.parametrize("text", ["plain", "ü €", "half a pair: \ud83d", "\x00\x1f\u2028"])
def test_any_text_is_written_as_json_that_reads_as_the_same_text(text: str):
    body = body_of(UserMessage(content=text), tools=(ToolDef(name="find", description=text),))
    assert json.loads(written(body)) == body


def test_a_deep_schema_is_written():
    deep: dict = {}
    for _ in range(400):
        deep = {"properties": {"x": deep}}
    assert json.loads(written({"tools": [deep]})) == {"tools": [deep]}


def test_a_message_of_a_history_has_the_same_form_in_each_request_and_keeps_no_extras_of_one():
    history = (UserMessage(content="hello"), CompletionMessage(content="hi", stop_reason="end_of_turn"))
    extras = {0: {"name": "ann"}}
    first = body_of(*history, message_extras=extras)["messages"]
    assert [{"role": "user", "content": "hello", "name": "ann"}, {"role": "assistant", "content": "hi"}] == first
    again = body_of(*history, UserMessage(content="more"))["messages"]
    assert {"role": "user", "content": "hello"} == again[0]
    assert first[1] is again[1]
    assert body_of(*history)["messages"] == again[:2]


def test_only_the_last_used_short_messages_are_kept():
    wires = _Wires(2)
    short = [UserMessage(content=str(number)) for number in range(3)]
    long = UserMessage(content="x" * (MOST_KEPT + 1))
    kept = wires.of([*short, long])
    again = wires.of([*short, long])
    assert kept == again
    assert [one is other for one, other in zip(kept, again, strict=True)] == [False, True, True, False]
