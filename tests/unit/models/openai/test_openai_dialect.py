"""OpenAI's chat completions and embeddings, translated to our requests and replies and back.

Covers: adapters/models/openai/openai_wire, adapters/models/prompted/prompted_tools,
  dialects/openai/chat/chat_replies, dialects/openai/chat/chat_requests, dialects/openai/chat/completions,
  dialects/openai/embeddings
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from turnstone.adapters.models.openai.openai_wire import request_body
from turnstone.adapters.models.prompted.prompted_tools import prompted
from turnstone.dialects.openai.chat.chat_replies import ChatCompletionEncoder
from turnstone.dialects.openai.chat.chat_requests import EXTRAS, REFUSED, CreateChatCompletion
from turnstone.dialects.openai.chat.completions import CreateCompletion
from turnstone.dialects.openai.embeddings import CreateEmbedding, embeddings_frame
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.inference import Question
from turnstone.domain.models.requests import Embedded, InferenceRequest, Inferred, TokenLikelihood
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.usage.usage import TokenUsage

HELLO = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
PNG = "data:image/png;base64,iVBORw0KGgo="
AT = datetime(2026, 1, 1, tzinfo=UTC)
EXTRA_VALUES: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "logit_bias": {"50256": -100.0},
    "logprobs": True,
    "max_completion_tokens": 9,
    "metadata": {"purpose": "test"},
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": -0.5,
    "prompt_cache_key": "k",
    "reasoning_effort": "low",
    "safety_identifier": "s",
    "seed": -7,
    "service_tier": "flex",
    "top_logprobs": 3,
    "user": "u",
    "verbosity": "low",
}


def question(**fields: Any) -> Question:
    return CreateChatCompletion.model_validate({"model": "m", "messages": [HELLO], **fields}).to_question()


def wire(**fields: Any) -> dict[str, Any]:
    """Return the body that a server of OpenAI's API receives for such a request, without its stream."""
    chat = question(**fields)
    config = chat.config
    request = InferenceRequest(
        model=config.model,
        messages=chat.messages,
        tools=config.client_tools,
        tool_choice=config.tool_config.tool_choice,
        sampling=config.sampling_params,
        response_format=config.response_format,
        extras=chat.extras,
        message_extras=chat.message_extras,
        tool_extras=chat.tool_extras,
    )
    body = request_body(request)
    return {name: value for name, value in body.items() if name not in ("stream", "stream_options")}


def test_a_missing_field_is_left_to_the_model() -> None:
    assert wire() == {"model": "m", "messages": [HELLO]}


def test_a_request_reaches_such_a_server_as_it_was_sent() -> None:
    assert EXTRA_VALUES.keys() == set(EXTRAS)
    sent = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "this?"}, {"type": "image_url", "image_url": {"url": PNG}}],
            },
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
        "temperature": 0.3,
        "top_p": 0.8,
        "stop": ["END"],
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True}},
        **EXTRA_VALUES,
    }
    assert wire(**sent) == {"model": "m", **sent}


@pytest.mark.parametrize(
    ("sent", "sent_on"),
    [
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"stop": "END"}, {"stop": ["END"]}),
        ({"stop": []}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
        ({"n": 1, "logprobs": False, "store": False, "modalities": ["text"]}, {}),
    ],
)
def test_equivalent_forms_of_a_field_are_sent_in_one_form(sent: dict[str, Any], sent_on: dict[str, Any]) -> None:
    assert wire(**sent) == {"model": "m", "messages": [HELLO], **sent_on}


LOW = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
CACHED = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "sent",
    [
        {"messages": [{**HELLO, "name": "ann"}]},
        {"messages": [HELLO, {"role": "user", "content": [{"type": "text", "text": "this?"}, LOW]}]},
        {"messages": [{"role": "system", "content": [CACHED]}, HELLO]},
        {"messages": [HELLO, {"role": "assistant", "content": "hm", "reasoning_content": "first"}, HELLO]},
        {"tools": [{**TOOL, "function": {**TOOL["function"], "strict": True}}]},
        {"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]},
        {"top_k": 3, "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}, "guided_choice": ["a", "b"]},
        {"logprobs": True, "top_logprobs": 0},
        {"logprobs": True, "top_logprobs": 8.0},
    ],
)
def test_fields_without_an_equivalent_of_ours_are_passed_through(sent: dict[str, Any]) -> None:
    assert wire(**sent) == {"model": "m", "messages": [HELLO], **sent}


@pytest.mark.parametrize(
    ("sent", "needed"),
    [
        ({"seed": 0}, ("seed",)),
        ({"frequency_penalty": 1, "logprobs": True}, ("frequency_penalty", "logprobs")),
        ({"frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "logprobs": False}, ()),
        ({"top_k": 3, "user": "u", "metadata": {}, "reasoning_effort": "low", "parallel_tool_calls": False}, ()),
    ],
)
def test_only_fields_that_change_the_answer_exclude_other_providers(
    sent: dict[str, Any], needed: tuple[str, ...]
) -> None:
    assert question(**sent).needed_extras == needed


CONTROLLED = (
    "Model",
    "MESSAGES",
    "Stream",
    "\u017ftream",
    "Stream_Options",
    "Tools",
    "Tool_Choice",
    "N",
    "max_To\u212aens",
)


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_field_that_a_server_could_read_as_one_of_ours_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: must be written {name.casefold()}"):
        question(**{name: "other"})


@pytest.mark.parametrize(
    "name",
    [
        *("api_base", "API-Key", "base_url", "extra_headers", "Authorization", "Base-URL", "apiBase", "__base__url"),
        *("fallbacks", "model_list", "user_config", "litellm_params", "remote_host"),
        *("endpoint", "azure_endpoint", "aws_bedrock_runtime_endpoint", "aws-sts-endpoint", "langsmith_base_url"),
    ],
)
def test_a_body_names_neither_a_server_nor_a_key(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: is set by this server"):
        question(**{name: "http://elsewhere"})
    with pytest.raises(ValidationError, match=f"{name}: is set by this server"):
        CreateEmbedding.model_validate({"model": "m", "input": "x", name: "http://elsewhere"})


INNER: Any = [
    {"kv_transfer_params": {"do_remote_prefill": True, "remoteHost": "elsewhere"}},
    {"router": [[{"deployments": {"litellmParams": {}}}]]},
    {"options": {"metadatas": {"api-base": None}}},
]


@pytest.mark.parametrize("further", INNER)
def test_a_further_field_names_no_server_at_any_depth(further: dict[str, Any]) -> None:
    (name,) = further
    message = f"{name}: has '(remoteHost|litellmParams|api-base)', which is set by this server"
    with pytest.raises(ValidationError, match=message):
        question(**further)
    for body in (CreateEmbedding, CreateCompletion):
        with pytest.raises(ValidationError, match=message):
            body.model_validate({"model": "m", "input": "x", "prompt": "x", **further})


SCHEMA = {"type": "object", "properties": {"endpoint": {"const": {"api_key": 1}}, "organization": {"type": "string"}}}


@pytest.mark.parametrize(
    "further",
    [
        {"guided_json": SCHEMA},
        {"structured_outputs": {"json": {"$defs": {"headers": SCHEMA}, "default": {"proxy": 1}}}},
        {"chat_template_kwargs": {"organization": "ours"}, "documents": [{"endpoint": "GET /"}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        {"metadata": {"endpoint": "x"}},
        {"messages": [HELLO, {"role": "assistant", "content": "api_base", "parsed": {"organization": "ours"}}]},
        {"provider": {"order": ["base_url"]}},
    ],
)
def test_words_of_a_schema_or_of_a_text_are_no_fields(further: dict[str, Any]) -> None:
    assert question(**further)


def test_a_further_field_is_nested_no_deeper_than_others() -> None:
    deep: Any = 0
    for _ in range(70):
        deep = [deep]
    with pytest.raises(ValidationError, match="chat_template_kwargs: lists and objects may be nested"):
        question(chat_template_kwargs=deep)


def test_a_null_is_left_out_whatever_its_field() -> None:
    answered = {"role": "assistant", "content": "hm", "annotations": None, "audio": None, "function_call": None}
    messages = [HELLO, {**answered, "tool_calls": None, "refusal": None}, HELLO]
    plain = [HELLO, {"role": "assistant", "content": "hm"}, HELLO]
    assert wire(messages=messages, top_k=None, metadata=None) == {"model": "m", "messages": plain}
    assert wire(messages=messages, metadata={"a": "b"}, store=True) == {"model": "m", "messages": plain}


def test_prompted_tools_are_described_without_the_fields_of_native_ones() -> None:
    chat = question(
        messages=[{"role": "system", "content": "Be brief."}, {**HELLO, "name": "ann"}],
        tools=[{**TOOL, "function": {**TOOL["function"], "strict": True}}],
        parallel_tool_calls=False,
        top_k=3,
    )
    request = InferenceRequest(
        model="m",
        messages=chat.messages,
        tools=chat.config.client_tools,
        tool_prompt_format="json",
        extras=chat.extras,
        message_extras=chat.message_extras,
        tool_extras=chat.tool_extras,
    )
    body = request_body(prompted(request))
    assert body["top_k"] == 3
    assert not {"tools", "parallel_tool_calls"} & body.keys()
    assert all(set(message) == {"role", "content"} for message in body["messages"])


def test_a_format_is_translated_as_well_for_other_providers() -> None:
    for sent, schema in (
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}, {"a": 1}),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, {"type": "object"}),
    ):
        response_format = question(response_format=sent).config.response_format
        assert response_format is not None
        assert response_format.model_dump() == {"type": "json_schema", "json_schema": schema}


def test_messages_become_ours() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]},
        {"role": "assistant", "refusal": "no"},
    ]
    system, user, assistant = (message.model_dump() for message in question(messages=messages).messages)
    assert (system["role"], system["content"]) == ("system", "a\nb")
    assert user["content"][0]["image"] == {"url": {"uri": "https://a/b.png"}, "data": None}
    assert assistant["content"] == "no"


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        *(({name: "x"}, (name,)) for name in REFUSED),
        ({"n": 2}, ("n",)),
        ({"store": 1}, ("store",)),
        ({"metadata": {"a": "b" * 513}}, ("metadata", "a")),
        ({"metadata": {"a" * 65: "b"}}, ("metadata", "a" * 65, "[key]")),
        ({"metadata": {str(i): "b" for i in range(17)}}, ("metadata",)),
        ({"modalities": ["audio"]}, ("modalities", 0)),
        ({"messages": [{"role": "function", "content": "x"}]}, ("messages", 0)),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, ("stream_options", "include_obfuscation")),
    ],
)
def test_a_field_without_an_effect_is_refused_by_name(sent: dict[str, Any], named: tuple[Any, ...]) -> None:
    with pytest.raises(ValidationError) as refused:
        question(**sent)
    assert named in [problem["loc"] for problem in refused.value.errors()]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"stream_options": {"include_usage": True}}, "stream_options: "),
        ({"top_logprobs": 2}, "top_logprobs: has no effect unless logprobs is true; leave it out"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "max_completion_tokens: "),
        ({"tools": [TOOL, TOOL]}, "tools: two are named 'add'"),
        ({"tool_choice": "required"}, "tool_choice: there is no tool"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice: names 'x'"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(sent: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        question(**sent)


def answer(*calls: ToolCall, text: str = "", stop_reason: str = "end_of_turn") -> Inferred:
    usage = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    return Inferred(CompletionMessage(content=text, stop_reason=stop_reason, tool_calls=calls), usage)


MADE = ToolCall(call_id="c1", tool_name="add", arguments={"a": 1}, arguments_json='{"a":1}')
BROKEN = ToolCall(call_id="c2", tool_name="add", arguments='{"a":')


def test_calls_are_written_as_the_model_wrote_them() -> None:
    completion = json.loads(ChatCompletionEncoder("m", "1", AT).whole(answer(MADE, BROKEN)))
    (choice,) = completion["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == ['{"a":1}', '{"a":']
    assert (completion["id"], completion["created"]) == ("chatcmpl-1", int(AT.timestamp()))
    assert completion["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_a_truncated_answer_has_the_finish_reason_length() -> None:
    completion = json.loads(ChatCompletionEncoder("m", "1", AT).whole(answer(text="so", stop_reason="out_of_tokens")))
    assert completion["choices"][0]["finish_reason"] == "length"
    assert completion["choices"][0]["message"] == {"role": "assistant", "content": "so", "refusal": None}


@pytest.mark.parametrize("includes_usage", [True, False])
def test_usage_comes_last_in_a_stream_and_only_on_request(includes_usage: bool) -> None:
    ended = ChatCompletionEncoder("m", "1", AT, includes_usage=includes_usage).ended(answer(MADE)).decode()
    *chunks, done, _ = ended.split("\n\n")
    assert done == "data: [DONE]"
    calls, end, *rest = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    assert [call["index"] for call in calls["choices"][0]["delta"]["tool_calls"]] == [0]
    assert (end["choices"][0]["delta"], end["choices"][0]["finish_reason"]) == ({}, "tool_calls")
    assert [(chunk["choices"], chunk["usage"]["total_tokens"]) for chunk in rest] == (
        [([], 3)] if includes_usage else []
    )


RATED = TokenLikelihood(token="x", logprob=-0.5, bytes=(120,), top_logprobs=())
RATED_WIRE = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}


def test_logprobs_have_the_fields_that_openais_clients_read() -> None:
    encoder = ChatCompletionEncoder("m", "1", AT)
    whole = json.loads(encoder.whole(Inferred(answer(text="x").message, logprobs=(RATED,))))
    assert whole["choices"][0]["logprobs"] == {"content": [RATED_WIRE], "refusal": None}
    chunk = json.loads(encoder.encoded("x", (RATED,)).removeprefix(b"data: "))
    assert chunk["choices"][0]["logprobs"] == {"content": [RATED_WIRE], "refusal": None}
    assert json.loads(encoder.encoded("x").removeprefix(b"data: "))["choices"][0]["logprobs"] is None


def test_base64_holds_the_vector_in_single_precision() -> None:
    body = CreateEmbedding.model_validate({"model": "m", "input": "x", "encoding_format": "base64"})
    head, entries, tail = embeddings_frame(Embedded(((0.5, -1.0, 0.25),), 4), body)
    reply = json.loads(head + b"".join(entries) + tail)
    assert struct.unpack("<3f", b64decode(reply["data"][0]["embedding"])) == (0.5, -1.0, 0.25)
    assert reply["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


@pytest.mark.parametrize("tokens", [[1, 2], [[1], [2]]])
def test_tokens_instead_of_texts_are_refused(tokens: list[Any]) -> None:
    with pytest.raises(ValidationError, match="send texts, not tokens"):
        CreateEmbedding.model_validate({"model": "m", "input": tokens})


def test_a_user_is_passed_on_with_texts() -> None:
    request = CreateEmbedding.model_validate({"model": "m", "input": "x", "dimensions": 3, "user": "ann"}).to_texts()
    assert (request.texts, request.dimensions, request.extras) == (("x",), 3, {"user": "ann"})


def test_clients_that_take_done_for_broken_json_do_not_receive_it() -> None:
    assert not ChatCompletionEncoder("m", "1", AT, ends_with_done=False).ended(answer(text="x")).endswith(b"[DONE]\n\n")
