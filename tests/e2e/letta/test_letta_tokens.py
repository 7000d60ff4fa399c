"""Letta's own client, unmodified: a stream of tokens has fragments, which together are the messages of the list.

Covers: functions/letta/messages, dialects/letta/turns/token_stream, domain/values/partial_json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_chunk, chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
MESSAGE = 'I know: "tea" 🍵\nand \\more\\.'


def grown(name: str, arguments: Mapping[str, Any]) -> Answer:
    """Answer with a call whose arguments arrive in parts of a few characters."""
    text, random = json.dumps(arguments), Random(7)
    yield call_chunk(0, name, "")
    while text:
        length = random.randrange(1, 5)
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[:length]}}]})
        text = text[length:]
    yield chunk({}, "tool_calls")
    yield usage_chunk(10, 5)


def model(body: Mapping[str, Any]) -> Answer:
    if str(body["messages"][-1]["content"]).startswith("remember: "):
        kept = {"inner_thoughts": "I keep that.", "label": "human", "content": 'likes "tea"', "request_heartbeat": True}
        return grown("core_memory_append", kept)
    return grown("send_message", {"inner_thoughts": "I answer.", "message": MESSAGE})


def test_fragments_arrive_and_make_the_messages_of_the_list(tmp_path: Path) -> None:
    with ModelServer(model) as served, ServerProcess(tmp_path, model_url=served.url) as server:
        seen = run_script("letta", "letta_tokens", server.url + "/letta")
    kinds = [kind for kind, _ in seen["fragments"]]
    assert all(kinds.count(f"{kind}_message") > 4 for kind in ("reasoning", "assistant", "tool_call"))
    assert seen["usage"] == ["usage_statistics", 2]
    begun = next(parts for kind, parts in seen["fragments"] if kind == "tool_call_message")
    assert begun.keys() == {"name", "tool_call_id"}
    shown = [(kind, parts) for _, kind, parts in seen["streamed"]]
    assert [kind for kind, _ in shown] == [
        *("reasoning_message", "tool_call_message", "tool_return_message"),
        *("reasoning_message", "assistant_message"),
    ]
    assert json.loads(shown[1][1]["arguments"]) == {
        "label": "human",
        "content": 'likes "tea"',
        "request_heartbeat": True,
    }
    assert [shown[index][1] for index in (0, 3, 4)] == [
        *({"reasoning": "I keep that."}, {"reasoning": "I answer."}, {"assistant_message": MESSAGE}),
    ]
    assert seen["streamed"] == seen["listed"][: len(shown)]
