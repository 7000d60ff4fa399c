"""The rows of the table for OpenAI's own client. Each row is the same under both addresses that clients are given.

Arguments: see `scenario.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from scenario import BASE_URL, EMBEDDING, GUARD, KEY, MODEL, PREFIXES, raised_by, row, run

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
STRICT_TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}
JSON_FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}}


class Place(BaseModel):
    """A place."""

    city: str


def under_both(act: Callable[[OpenAI], Any]) -> Callable[[], Any]:
    """Make a row of calls of a client: its facts if they are the same under both addresses."""

    @row
    @wraps(act)
    def compared() -> Any:
        clients = [OpenAI(base_url=BASE_URL + prefix, api_key=KEY, max_retries=0) for prefix in PREFIXES]
        facts = [act(client) for client in clients]
        is_same = all(each == facts[0] for each in facts)
        return facts[0] if is_same else dict(zip(PREFIXES, facts, strict=True))

    return compared


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


@under_both
def models_are_listed(client: OpenAI) -> Any:
    model = next(each for each in client.models.list() if each.id == MODEL)
    return [model.id, model.object, isinstance(model.created, int), isinstance(model.owned_by, str)]


@under_both
def model_is_retrieved(client: OpenAI) -> Any:
    return [client.models.retrieve(MODEL).id, raised_by(lambda: client.models.retrieve("unknown"))[:2]]


@under_both
def chat(client: OpenAI) -> Any:
    whole = client.chat.completions.create(model=MODEL, messages=HELLO)
    chunks = list(
        client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True})
    )
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return {
        "whole": [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.object],
        "tokens": whole.usage and whole.usage.total_tokens,
        "text": "".join(choice.delta.content or "" for choice in choices),
        "finish": choices[-1].finish_reason,
        "last": [chunks[-1].choices, chunks[-1].usage and chunks[-1].usage.total_tokens],
    }


@under_both
def chat_with_strict_tools(client: OpenAI) -> Any:
    request: Any = {"model": MODEL, "messages": user('call add {"city": "Oslo"}'), "tools": [STRICT_TOOL]}
    whole = client.chat.completions.create(**request).choices[0]
    with client.chat.completions.stream(**request) as stream:
        streamed = stream.get_final_completion().choices[0]
    calls = [[call.function.name, call.function.arguments] for call in whole.message.tool_calls or ()]
    return [calls, whole.finish_reason, [call.function.name for call in streamed.message.tool_calls or ()]]


@under_both
def tool_loop(client: OpenAI) -> Any:
    messages = user('call add {"city": "Oslo"}')
    called = client.chat.completions.create(model=MODEL, messages=messages, tools=[STRICT_TOOL]).choices[0].message
    answers = [{"role": "tool", "tool_call_id": call.id, "content": "7"} for call in called.tool_calls or ()]
    ended = client.chat.completions.create(model=MODEL, messages=[*messages, called, *answers], tools=[STRICT_TOOL])
    return ended.choices[0].message.content


@under_both
def pydantic_function_tool(client: OpenAI) -> Any:
    tool = openai.pydantic_function_tool(Place, name="add")
    answer = client.chat.completions.parse(model=MODEL, messages=user('call add {"city": "Oslo"}'), tools=[tool])
    return [call.function.parsed_arguments.city for call in answer.choices[0].message.tool_calls or ()]


@under_both
def structured_output(client: OpenAI) -> Any:
    parsed = client.chat.completions.parse(model=MODEL, messages=user("json"), response_format=Place)
    completion = client.chat.completions.create(model=MODEL, messages=user("json"), response_format=JSON_FORMAT)
    return [parsed.choices[0].message.parsed.city, json.loads(completion.choices[0].message.content or "")]


@under_both
def chat_with_what_a_provider_knows(client: OpenAI) -> Any:
    named: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hello", "name": "ann"}]
    whole = client.chat.completions.create(
        model=MODEL,
        messages=named,
        metadata={"team": "a"},
        user="u1",
        logprobs=True,
        top_logprobs=1,
        seed=3,
        n=1,
        extra_body={"top_k": 5, "chat_template_kwargs": {"enable_thinking": False}},
    )
    return whole.choices[0].message.content


@under_both
def image_with_detail(client: OpenAI) -> Any:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "hello"}, image]}]
    return client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content


@under_both
def embeddings(client: OpenAI) -> Any:
    in_base64 = client.embeddings.create(model=EMBEDDING, input=["one", "three"])  # which it requests by itself
    in_floats = client.embeddings.create(model=EMBEDDING, input="one", encoding_format="float")
    return [[entry.embedding for entry in answer.data] for answer in (in_base64, in_floats)]


@under_both
def completion(client: OpenAI) -> Any:
    whole = client.completions.create(model=MODEL, prompt="Once upon").choices[0]
    chunks = client.completions.create(model=MODEL, prompt="Once upon", stream=True)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    text = "".join(choice.text for choice in choices)
    return [bool(text), text == whole.text, whole.finish_reason, choices[-1].finish_reason]


@under_both
def stored_chat_completions(client: OpenAI) -> Any:
    made = client.chat.completions.create(model=MODEL, messages=HELLO, store=True, metadata={"team": "a"})
    unstored = client.chat.completions.create(model=MODEL, messages=HELLO)
    read = client.chat.completions.retrieve(made.id)
    listed = [each.id for each in client.chat.completions.list(model=MODEL, limit=100)]
    unread = raised_by(lambda: client.chat.completions.retrieve(unstored.id))[:2]
    return [made.id in listed, unstored.id in listed, read.choices[0].message.content, unread]


@under_both
def responses(client: OpenAI) -> Any:
    first = client.responses.create(model=MODEL, input="hello")
    with client.responses.stream(model=MODEL, input="hello", previous_response_id=first.id) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    read = client.responses.retrieve(final.id)
    client.responses.delete(final.id)
    gone = refusal(lambda: client.responses.retrieve(final.id))
    return [first.output_text, "".join(texts), read.output_text, read.previous_response_id == first.id, gone]


@under_both
def response_parsed(client: OpenAI) -> Any:
    return client.responses.parse(model=MODEL, input="json", text_format=Place).output_parsed.city


@under_both
def refused(client: OpenAI) -> Any:
    create = client.chat.completions.create
    stranger = OpenAI(base_url=client.base_url, api_key="wrong", max_retries=0)
    return {
        "n": refusal(lambda: create(model=MODEL, messages=HELLO, n=2)),
        "no_messages": refusal(lambda: create(model=MODEL, messages=[])),
        "busy": refusal(lambda: create(model=MODEL, messages=user("fail 429"))),
        "broken": refusal(lambda: create(model=MODEL, messages=user("fail 500"))),
        "no_key": refusal(lambda: stranger.chat.completions.create(model=MODEL, messages=HELLO)),
    }


@under_both
def unserved_methods_are_named(client: OpenAI) -> Any:
    return {
        "assistants": refusal(client.beta.assistants.list, "assistants.list"),
        "videos": refusal(lambda: client.videos.list(), "videos.list"),
    }


def refusal(call: Callable[[], Any], *words: str) -> list[Any]:
    """Return the class and status of a refusal, and whether the client reads its message, with these words in it."""
    try:
        call()
    except openai.APIStatusError as error:
        message = error.body.get("message", "") if isinstance(error.body, dict) else ""
        return [type(error).__name__, error.status_code, bool(message) and all(word in message for word in words)]
    return ["nothing was raised"]


@row
def asynchronous_client() -> Any:
    async def act() -> Any:
        async with AsyncOpenAI(base_url=BASE_URL + PREFIXES[0], api_key=KEY, max_retries=0) as client:
            stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
            texts = [choice.delta.content or "" async for chunk in stream for choice in chunk.choices]
            models = [model.id async for model in client.models.list()]
            return ["".join(texts), GUARD in models]

    return asyncio.run(act())


run()
