"""Answers of Bedrock: frames of an event stream, made byte by byte, and the events of ConverseStream in them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from tests.fakes.models.openai_answers import HttpAnswer

USAGE = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
STRING = 7


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame of `application/vnd.amazon.eventstream`.

    Source: Amazon's event stream encoding: lengths of all and of the headers, their checksum, the headers, the payload,
    and a checksum of everything before it.
    """
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack("!II", 16 + len(packed) + len(payload), len(packed))
    before = prelude + struct.pack("!I", crc32(prelude)) + packed + payload
    return before + struct.pack("!I", crc32(before))


def _header(name: str, value: str) -> bytes:
    encoded_name, encoded_value = name.encode(), value.encode()
    return bytes([len(encoded_name)]) + encoded_name + struct.pack("!BH", STRING, len(encoded_value)) + encoded_value


def event(event_type: str, **fields: Any) -> bytes:
    headers = {":event-type": event_type, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(fields, ensure_ascii=False).encode())


def exception(exception_type: str, message: str) -> bytes:
    """Return the frame by which a stream that has begun reports a failure."""
    headers = {":exception-type": exception_type, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def text(*deltas: str, index: int = 0) -> tuple[bytes, ...]:
    events = [event("contentBlockDelta", contentBlockIndex=index, delta={"text": delta}) for delta in deltas]
    return (*events, event("contentBlockStop", contentBlockIndex=index))


def reasoning(*deltas: str, index: int = 0) -> tuple[bytes, ...]:
    """Return reasoning in these pieces, with its signature and a redacted part."""
    parts = [*({"text": delta} for delta in deltas), {"signature": "c2ln"}, {"redactedContent": "aGlkZGVu"}]
    events = [event("contentBlockDelta", contentBlockIndex=index, delta={"reasoningContent": part}) for part in parts]
    return (*events, event("contentBlockStop", contentBlockIndex=index))


def call(name: str, *pieces: str, index: int = 1, call_id: str = "") -> tuple[bytes, ...]:
    """Return a call whose arguments come in these pieces of JSON."""
    use = {"toolUseId": call_id or f"tooluse_{name}_{index}", "name": name}
    return (
        event("contentBlockStart", contentBlockIndex=index, start={"toolUse": use}),
        *(event("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": p}}) for p in pieces),
        event("contentBlockStop", contentBlockIndex=index),
    )


START = event("messageStart", role="assistant")


def ending(stop_reason: str = "end_turn", usage: Mapping[str, int] = USAGE) -> tuple[bytes, ...]:
    return (
        event("messageStop", stopReason=stop_reason),
        event("metadata", usage=dict(usage), metrics={"latencyMs": 5}),
    )


def text_answer(*deltas: str) -> tuple[bytes, ...]:
    return (START, *text(*deltas), *ending())


def call_answer(*calls: tuple[str, str]) -> tuple[bytes, ...]:
    """Return an answer that calls tools: (name, arguments as JSON)."""
    events = [part for index, (name, arguments) in enumerate(calls) for part in call(name, arguments, index=index)]
    return (START, *events, *ending("tool_use"))


def whole_answer(content: Sequence[Mapping[str, Any]], stop_reason: str = "end_turn") -> HttpAnswer:
    """Return the answer of Converse, which does not stream."""
    message = {"role": "assistant", "content": list(content)}
    body = {"output": {"message": message}, "stopReason": stop_reason, "usage": USAGE, "metrics": {"latencyMs": 5}}
    return HttpAnswer(200, body)


def refusal(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    return HttpAnswer(status, {"message": message}, {"x-amzn-ErrorType": f"{code}:http://x/", **(headers or {})})


BROKEN_FRAME = START[:-1] + bytes([START[-1] ^ 1])
