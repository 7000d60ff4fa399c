"""Models: listed, registered, and called directly in both of the client's dialects."""

from __future__ import annotations

import json
from typing import Any

from llama_stack_client_used import client, user
from scenario import EMBEDDING, GUARD, MODEL, method_of, raised_by, row

TOOL = {"tool_name": "add", "parameters": {"a": {"param_type": "int", "required": True}}}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
STRICT_TOOL = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}
JSON_FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}
PASSED_ON = {"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}}


@row
def models_are_listed() -> Any:
    listed = {model.identifier: model.to_dict() for model in client.models.list()}
    return [MODEL in listed, listed[MODEL]["model_type"], client.models.retrieve(MODEL).identifier]


@row
def models_are_listed_in_openais_words() -> Any:
    listed = method_of(client, "models.openai.list")()
    model = next(each for each in listed if each.id == MODEL)
    return [model.id, model.object, isinstance(model.created, int), isinstance(model.owned_by, str)]


@row
def model_comes_and_goes() -> Any:
    client.models.register(model_id="nickname", provider_model_id=MODEL)
    listed = [model.identifier for model in client.models.list()]
    client.models.unregister("nickname")
    return ["nickname" in listed, raised_by(lambda: client.models.retrieve("nickname"))[:2]]


@row
def inference_chat() -> Any:
    request = {"model_id": MODEL, "messages": user("hello")}
    chat = method_of(client, "inference.chat_completion")
    whole = chat(**request)
    events = [chunk.event for chunk in chat(**request, stream=True)]
    return {
        "whole": [whole.completion_message.content, whole.completion_message.stop_reason],
        "metrics": sorted(metric.metric for metric in whole.metrics or ()),
        "kinds": [events[0].event_type, events[-1].event_type],
        "text": "".join(getattr(event.delta, "text", "") for event in events),
        "stop_reason": events[-1].stop_reason,
    }


@row
def inference_chat_with_tools() -> Any:
    chat = method_of(client, "inference.chat_completion")
    request = {"model_id": MODEL, "messages": user('call add {"a": 3}'), "tools": [TOOL]}
    called = chat(**request).completion_message.tool_calls
    events = [chunk.event for chunk in chat(**request, stream=True)]
    calls = [event.delta.tool_call for event in events if event.delta.type == "tool_call"]
    return [[[call.tool_name, call.arguments] for call in some] for some in (called, calls)]


@row
def inference_chat_with_a_schema() -> Any:
    chat = method_of(client, "inference.chat_completion")
    schema_format = {"type": "json_schema", "json_schema": SCHEMA}
    return json.loads(
        chat(model_id=MODEL, messages=user("json"), response_format=schema_format).completion_message.content
    )


@row
def inference_completion() -> Any:
    complete = method_of(client, "inference.completion")
    whole = complete(model_id=MODEL, content="Once upon")
    chunks = list(complete(model_id=MODEL, content="Once upon", stream=True))
    text = "".join(chunk.delta for chunk in chunks)
    return [bool(text), text == whole.content, whole.stop_reason, chunks[-1].stop_reason]


@row
def inference_embeddings() -> Any:
    return method_of(client, "inference.embeddings")(model_id=EMBEDDING, contents=["one", "three"]).embeddings


@row
def openai_chat() -> Any:
    create = method_of(client, "chat.completions.create")
    request = {"model": MODEL, "messages": user("hello")}
    whole = create(**request).choices[0]
    chunks = [chunk.choices[0] for chunk in create(**request, stream=True) if chunk.choices]
    return {
        "whole": [whole.message.content, whole.finish_reason],
        "text": "".join(chunk.delta.content or "" for chunk in chunks),
        "finish": chunks[-1].finish_reason,
    }


@row
def openai_chat_with_strict_tools() -> Any:
    create = method_of(client, "chat.completions.create")
    request = {"model": MODEL, "messages": user('call add {"city": "Oslo"}'), "tools": [STRICT_TOOL]}
    calls = create(**request).choices[0].message.tool_calls
    deltas = [choice.delta for chunk in create(**request, stream=True) for choice in chunk.choices]
    streamed = [call for delta in deltas for call in delta.tool_calls or ()]
    return [
        [[call.function.name, call.function.arguments] for call in some if call.function.name]
        for some in (calls, streamed)
    ]


@row
def openai_chat_with_a_schema() -> Any:
    create = method_of(client, "chat.completions.create")
    return json.loads(
        create(model=MODEL, messages=user("json"), response_format=JSON_FORMAT).choices[0].message.content
    )


@row
def openai_chat_with_what_a_provider_knows() -> Any:
    create = method_of(client, "chat.completions.create")
    named = [{"role": "user", "content": "hello", "name": "ann"}]
    whole = create(model=MODEL, messages=named, user="u1", logprobs=True, seed=3, extra_body=PASSED_ON)
    return whole.choices[0].message.content


@row
def openai_chat_refused() -> Any:
    create = method_of(client, "chat.completions.create")
    return {
        "n": raised_by(lambda: create(model=MODEL, messages=user("x"), n=2))[:2],
        "no_messages": raised_by(lambda: create(model=MODEL, messages=[]))[:2],
        "busy": raised_by(lambda: create(model=MODEL, messages=user("fail 429")))[:2],
        "broken": raised_by(lambda: create(model=MODEL, messages=user("fail 500")))[:2],
    }


@row
def openai_completion() -> Any:
    create = method_of(client, "completions.create")
    whole = create(model=MODEL, prompt="Once upon").choices[0]
    chunks = [choice for chunk in create(model=MODEL, prompt="Once upon", stream=True) for choice in chunk.choices]
    text = "".join(chunk.text for chunk in chunks)
    return [bool(text), text == whole.text, whole.finish_reason, chunks[-1].finish_reason]


@row
def openai_embeddings() -> Any:
    embedded = method_of(client, "embeddings.create")(model=EMBEDDING, input=["one", "three"])
    return [[entry.embedding for entry in embedded.data], embedded.usage.total_tokens]


@row
def stored_chat_completions() -> Any:
    create, listing = method_of(client, "chat.completions.create"), method_of(client, "chat.completions.list")
    made = create(model=MODEL, messages=user("hello"), extra_body={"store": True})
    read = client.chat.completions.retrieve(made.id)
    listed = [each.id for each in listing(limit=100, model=MODEL).data]
    return [made.id in listed, read.choices[0].message.content, read.input_messages[-1].content, GUARD in listed]
