"""The model of a server that has none.

Covers: adapters/models/offline/offline
"""

import json
from typing import Any

import pytest

from turnstone.adapters.models.offline.offline import OfflineInference
from turnstone.domain.agents.agents import JsonSchemaFormat, SamplingParams
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.values.content import Image, ImageItem, TextItem

SEARCH = ToolDef(
    name="find", parameters=(ToolParameter(name="query", parameter_type="str", description="what to look for"),)
)
TOOLS = (SEARCH, ToolDef(name="ns::grp/t.o-ol"), ToolDef(name="get_find"))


def answer_to(*messages: Message | str, **fields: Any) -> tuple[list[str], Inferred]:
    conversation = tuple(UserMessage(content=m) if isinstance(m, str) else m for m in messages)
    *chunks, last = OfflineInference().stream(InferenceRequest("offline", conversation, **fields))
    assert isinstance(last, Inferred)
    return [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)], last


def called(text: str, **fields: Any) -> list[tuple[str, Any]]:
    calls = answer_to(text, **{"tools": TOOLS, **fields})[1].message.tool_calls
    return [(call.tool_name, call.arguments) for call in calls]


def test_the_answer_states_offline_mode_repeats_the_question_and_explains_how_to_connect_a_model():
    chunks, last = answer_to(SystemMessage(content="be kind"), "first", "What is up?")
    text = last.message.content
    assert "".join(chunks) == text
    assert len(chunks) > 10
    assert "offline" in text
    assert "“What is up?”" in text
    assert "TURNSTONE_MODEL_URL" in text
    assert last.message.stop_reason == "end_of_turn"


def test_the_same_question_has_the_same_answer():
    assert answer_to("hello") == answer_to("hello")


def test_the_example_names_the_properties_of_a_schema():
    tool = ToolDef(name="t", input_schema={"type": "object", "properties": {"city": {}, "day": True}})
    assert 't(city="…", day="…")' in str(answer_to("hello", tools=(tool,))[1].message.content)


def test_a_long_question_is_repeated_in_part():
    assert len(str(answer_to("long " * 1000)[1].message.content)) < 700


def test_usage_is_estimated_by_length():
    usage = answer_to("x" * 400)[1].usage
    assert usage is not None
    assert usage.prompt_tokens == 100
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert answer_to("")[1].usage.prompt_tokens == 1


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("find()", {}),
        ("please find( ) now", {}),
        ("find(query=tea)", {"query": "tea"}),
        ("find(query=two words , n=3)", {"query": "two words", "n": 3}),
        ('find(query="a, (b) \\"c\\"")', {"query": 'a, (b) "c"'}),
        ("find(query='it\\'s, (ok)', n = -1.5 )", {"query": "it's, (ok)", "n": -1.5}),
        ('find(a=[1, {"b": null}], c=true, d=null)', {"a": [1, {"b": None}], "c": True, "d": None}),
        ("find(a=True, b=False, c=None)", {"a": True, "b": False, "c": None}),
        ("find(when=3pm, zone=Europe/Berlin)", {"when": "3pm", "zone": "Europe/Berlin"}),
        ("find(\n  query='x',\n)", {"query": "x"}),
        ("find(x=NaN)", {"x": "NaN"}),
    ],
)
def test_a_call_is_read_as_it_is_written(text: str, arguments: dict):
    assert called(text) == [("find", arguments)]


def test_several_calls_of_one_message_are_several_calls_with_ids_of_their_own():
    text = "first find(query='a find(b) c'), then ns::grp/t.o-ol(n=1) and get_find()"
    assert called(text) == [("find", {"query": "a find(b) c"}), ("ns::grp/t.o-ol", {"n": 1}), ("get_find", {})]
    calls = answer_to(text, tools=TOOLS)[1].message.tool_calls
    assert len({call.call_id for call in calls}) == 3
    assert all(call.call_id.startswith("call_") for call in calls)
    assert json.loads(calls[1].arguments_json or "") == {"n": 1}


def test_an_answer_with_calls_has_no_text():
    assert answer_to("find()", tools=TOOLS)[0] == []


@pytest.mark.parametrize("text", ["other(x=1)", "find it (now)", "my_find()", "ns::find()", "find"])
def test_text_that_is_not_a_call_of_a_tool_stays_text(text: str):
    assert called(text) == []


@pytest.mark.parametrize(
    "text", ["find(tea)", "find(query=)", "find(query='a", "find(query=[1)", "find(a=" + "[" * 100_000]
)
def test_a_call_that_cannot_be_read_is_answered_with_how_to_write_it(text: str):
    last = answer_to(text, tools=TOOLS)[1]
    assert last.message.tool_calls == ()
    assert 'find(query="…")' in str(last.message.content)


def test_tool_choice_none_calls_nothing():
    assert called("find()", tool_choice="none") == []


def test_only_the_last_question_calls():
    assert answer_to("find()", "hello", tools=TOOLS)[1].message.tool_calls == ()


def test_after_tool_responses_the_answer_repeats_each():
    calls = answer_to("find() get_find()", tools=TOOLS)[1].message
    image = ImageItem(image=Image(data="abc"))
    responses = (
        ToolResponseMessage(call_id=calls.tool_calls[0].call_id, content="tea"),
        ToolResponseMessage(call_id=calls.tool_calls[1].call_id, content=(TextItem(text="seen"), image)),
    )
    summary = answer_to("find() get_find()", calls, *responses, tools=TOOLS)[1].message
    assert summary.tool_calls == ()
    assert str(summary.content).startswith("find returned: tea\nget_find returned: seen [image]\n")


def test_max_tokens_counts_words_and_cuts_off():
    chunks, last = answer_to("hello", sampling=SamplingParams(max_tokens=3))
    assert len(chunks) == 3
    assert last.message == CompletionMessage(content="".join(chunks), stop_reason="out_of_tokens")
    assert last.message.content == "I am offline:"


def test_a_json_schema_is_answered_with_a_json_object():
    chunks, last = answer_to("hello", response_format=JsonSchemaFormat(json_schema={}))
    answer = json.loads("".join(chunks))
    assert answer["offline"] is True
    assert "“hello”" in answer["message"]
    assert last.message.content == "".join(chunks)


def test_there_is_one_model():
    assert OfflineInference().models() == ("offline",)
