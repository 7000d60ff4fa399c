"""Answers of model servers and MCP servers in golden transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.fakes.models.openai_answers import (
    Answer,
    HttpAnswer,
    Item,
    Pause,
    built_in_answer,
    call_answer,
    ending,
    error_answer,
    prompt_answer,
    text_answer,
    text_chunk,
)
from tests.fakes.tools.hostile_mcp_server import Message, Reply, decent
from tests.fakes.tools.hostile_mcp_server import result_reply as result

ACTION = {"tool_name": "get_weather", "tool_params": [{"name": "city", "value": "Oslo"}]}
CALLS = json.dumps({"thought": "I look.", "action": ACTION, "answer": None})
ANSWERS = json.dumps({"thought": "I know.", "action": None, "answer": "It rains."})
CITY_CALLS = ("look: Oslo", "look: Rome", "Both are wet.")
MCP_SESSION = (("mcp-session-id", "s1"),)


def rated(text: str) -> dict[str, Any]:
    """Return a text chunk with log probabilities."""
    made = text_chunk(text)
    entry = {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}
    made["choices"][0]["logprobs"] = {"content": [entry]}
    return made


def reads_calls_in_text(body: Mapping[str, Any]) -> Answer:
    """Write calls as text until the request has their results."""
    since = max(n for n, message in enumerate(body["messages"]) if message["role"] == "user")
    results = sum(message["role"] == "tool" for message in body["messages"][since:])
    if body["model"] == "parsing":
        return text_answer(CITY_CALLS[results])
    is_thanked = "Thanks." in body["messages"][-1]["content"]
    return text_answer(ANSWERS if results or is_thanked else CALLS)


def tool_loop(body: Mapping[str, Any]) -> Answer:
    """Call `look` on the message "look", then repeat the result."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return text_answer("I saw ", last["content"])
    if last["content"] == "look":
        return call_answer(("look", '{"at": "Oslo"}'))
    return text_answer("hel", "lo") if body["model"] == "m" else built_in_answer(body)


def by_fields(body: Mapping[str, Any]) -> Answer:
    """Answer by the model's name."""
    match body["model"]:
        case "calls":
            return call_answer(("Add", '{"a": 1, "b": 2}'))
        case "words":
            return (rated("one "), rated("two"), *ending("stop"))
        case "gone":
            return error_answer(404, "The model `gone` does not exist")
        case "busy":
            return HttpAnswer(429, {"error": {"message": "slow down"}}, {"Retry-After": "17"})
    return text_answer("ok")


def may_be_broken(body: Mapping[str, Any]) -> Answer:
    if body["model"] == "broken":
        return error_answer(400, "your message 'a private question' is too private")
    return built_in_answer(body)


def continues(_: Mapping[str, Any]) -> Answer:
    return prompt_answer(" a", " time", " there", " was")


def held(items: Callable[[], Iterator[Item]], first: str = "Once") -> Answer:
    """Return an answer with these items between its two texts."""

    def answer() -> Iterator[Item]:
        yield text_chunk(first)
        yield Pause(0)
        yield from items()
        yield from text_answer(" upon")

    return answer()


def adding(message: Message, _: Mapping[str, str] = {}) -> Reply:
    """Answer as an MCP server with a tool `add`."""
    match message.get("method"):
        case "initialize":
            return Reply(decent(message).chunks, headers=MCP_SESSION)
        case "tools/list":
            numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
            schema = {"type": "object", "properties": numbers, "required": ["a", "b"]}
            return result(message, {"tools": [{"name": "add", "description": "Add.", "inputSchema": schema}]})
        case "tools/call":
            given = message["params"]["arguments"]
            return result(message, {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]})
    return decent(message)


def keyed(key: str, status: int = 401, *open_to_all: str) -> Callable[[Message, Mapping[str, str]], Reply]:
    """Return an MCP server with a tool `echo`, which refuses requests without the key by a status."""

    def answer(message: Message, headers: Mapping[str, str]) -> Reply:
        if headers.get("authorization") != key and message.get("method") not in open_to_all:
            return Reply(status=status)
        if message.get("method") == "initialize":
            return Reply(decent(message).chunks, headers=MCP_SESSION)
        return decent(message)

    return answer
