"""Answers of the fake model server: the pieces of a streamed answer, and the answers of its built-in models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STREAM_PAUSE_S = 0.25
DONE = b"data: [DONE]\n\n"
BUILT_IN_MODELS = ("instant", "words-50", "slow-1", "stream-5", "tool:current_time")
BUILT_IN_MODEL = re.compile(r"(?P<kind>words-|slow-|stream-|tool:)(?P<argument>.+)")


@dataclass(frozen=True)
class Pause:
    """Send the buffered bytes, then wait."""

    seconds: float


@dataclass(frozen=True)
class BreakOff:
    """Send the buffered bytes, then hang up in the middle of the answer."""


@dataclass(frozen=True)
class HangUp:
    """Hang up without an answer."""


@dataclass(frozen=True)
class HttpAnswer:
    """An answer that is no event stream, such as an error."""

    status: int
    body: bytes | Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def listed(*models: str) -> HttpAnswer:
    """Return the answer that lists these models."""
    entries = [{"id": model, "object": "model", "created": 0, "owned_by": "fake"} for model in models]
    return HttpAnswer(200, {"object": "list", "data": entries})


BUILT_IN_LIST = listed(*BUILT_IN_MODELS)
Item = Mapping[str, Any] | bytes | Pause | BreakOff
Answer = Iterable[Item] | HttpAnswer | HangUp


def chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish_reason}],
    }


def text_chunk(text: str) -> dict[str, Any]:
    return chunk({"content": text})


def call_chunk(index: int, name: str, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"index": index, "id": call_id or f"call-{name}-{index}", "type": "function", "function": function}
    return chunk({"tool_calls": [call]})


def usage_chunk(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {**chunk({}), "choices": [], "usage": usage}


def ending(finish_reason: str, completion_tokens: int = 1) -> tuple[Item, ...]:
    return (chunk({}, finish_reason), usage_chunk(10, completion_tokens), DONE)


def text_answer(*texts: str, finish_reason: str = "stop") -> tuple[Item, ...]:
    """Return a whole answer of so many deltas."""
    return (*(text_chunk(text) for text in texts), *ending(finish_reason, len(texts)))


def call_answer(*calls: tuple[str, str]) -> tuple[Item, ...]:
    """Return a whole answer that calls tools: (name, arguments as JSON)."""
    return (*(call_chunk(index, name, text) for index, (name, text) in enumerate(calls)), *ending("tool_calls"))


def prompt_chunk(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    """Return a piece of a text that continues a prompt."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}
    return {"id": "cmpl-fake", "object": "text_completion", "created": 0, "model": "fake", "choices": [choice]}


def prompt_answer(*texts: str, finish_reason: str = "stop") -> tuple[Item, ...]:
    """Return a whole continuation of a prompt in so many pieces."""
    return (
        *map(prompt_chunk, texts),
        prompt_chunk("", finish_reason),
        {**prompt_chunk(""), "choices": [], "usage": usage_chunk(3, len(texts))["usage"]},
        DONE,
    )


def built_in_answer(body: Mapping[str, Any]) -> Answer:
    """Return the answer of the requested model; every id that is not special answers "ok"."""
    built_in = BUILT_IN_MODEL.fullmatch(str(body.get("model")))
    kind, argument = (built_in["kind"], built_in["argument"]) if built_in else ("", "")
    match kind:
        case "words-":
            return text_answer(*(f"word{number} " for number in range(int(argument))))
        case "slow-":
            return (Pause(float(argument)), *text_answer("ok"))
        case "stream-":
            count = max(1, round(float(argument) / STREAM_PAUSE_S))
            pieces = (item for number in range(count) for item in (text_chunk(f"word{number} "), Pause(STREAM_PAUSE_S)))
            return (*pieces, *ending("stop", count))
        case "tool:" if body["messages"][-1]["role"] != "tool":
            call_id = f"call-{len(body['messages'])}"
            return (call_chunk(0, argument, "{}", call_id), *ending("tool_calls"))
        case _:
            return text_answer("ok")


def embeddings_answer(body: Mapping[str, Any]) -> HttpAnswer:
    """Return vectors of a text's length and its index, in as many dimensions as requested; the last text's is first."""
    if body["model"] == "broken":
        return error_answer(400, f"can't read {body['input'][0]}")
    rest = [0.0] * (body.get("dimensions", 3) - 2)
    texts = list(enumerate(body["input"]))
    data = [{"object": "embedding", "index": i, "embedding": [float(len(text)), float(i), *rest]} for i, text in texts]
    usage = {"prompt_tokens": 7, "total_tokens": 7}
    return HttpAnswer(200, {"object": "list", "data": data[::-1], "model": "fake", "usage": usage})


def whole_answer(items: Sequence[Item]) -> HttpAnswer:
    """Return a streamed answer as one JSON body, for a client that did not request a stream."""
    choices = [item["choices"][0] for item in items if isinstance(item, Mapping) and item.get("choices")]
    deltas = [choice["delta"] for choice in choices]
    calls = [{k: v for k, v in call.items() if k != "index"} for d in deltas for call in d.get("tool_calls", ())]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(d.get("content") or "" for d in deltas) or None}
    if calls:
        message["tool_calls"] = calls
    finish_reason = next((c["finish_reason"] for c in choices if c["finish_reason"]), None)
    usage = next((item["usage"] for item in items if isinstance(item, Mapping) and item.get("usage")), None)
    body = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": usage,
    }
    return HttpAnswer(200, body)


def error_answer(status: int, message: str) -> HttpAnswer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return HttpAnswer(status, {"error": error})


def encoded(item: Mapping[str, Any] | bytes) -> bytes:
    """Return the bytes of an event; bytes are sent as they are."""
    return item if isinstance(item, bytes) else b"data: " + json.dumps(item).encode() + b"\n\n"
