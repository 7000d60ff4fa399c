"""OpenAI's own client, unmodified: function calls answered in each way, in three rounds of fragments, and cut off.

Covers: services/responses/responses, services/responses/forking, dialects/openai/responses/folding
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, call_chunk, chunk, ending, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
TEXT = '😀 ü "q" \\'
FRAGMENTS = ('{"text": "\\ud83d', "\\ude", "00 ü \\", '"q\\" \\', '\\"}')
ROUNDS = 3
CUT: dict[str, Answer] = {
    "cut text": (text_chunk("Once upon"), *ending("length")),
    "cut call": (call_chunk(0, "add", '{"text": "Once'), *ending("length")),
    "cut reasoning": (chunk({"reasoning_content": "Hm, "}), *ending("length")),
}


def answer(body: Mapping[str, Any]) -> Answer:
    """Return calls first, and then a text of all messages; with fragments only after three rounds."""
    if body["model"] in CUT:
        return CUT[body["model"]]
    messages = body["messages"]
    if body["model"] == "calls":
        first = call_answer(("add", '{"text": "a"}'), ("see", '{"text": "b"}'))
        return first if len(messages) == 1 else text_answer(" ".join(map(shown, messages)))
    number = sum(message["role"] == "assistant" for message in messages)
    if number == ROUNDS:
        return text_answer(" ".join(shown(each) for each in messages if each["role"] == "tool"))
    pieces = [call_chunk(index, name, "", f"c{number}{name}") for index, name in enumerate(("add", "see"))]
    pieces += [call_chunk(index, "", piece) for piece in FRAGMENTS for index in (0, 1)]
    return (*pieces, *ending("tool_calls"))


def shown(message: Mapping[str, Any]) -> str:
    calls = "+".join(call["function"]["name"] for call in message.get("tool_calls") or ())
    return f"{message['role']}:{calls or message['content']}"


def test_function_calls_are_answered_in_each_way(tmp_path: Path) -> None:
    with ModelServer(answer) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_answered_calls", server.url + "/v1")
        offered = [[tool["function"]["name"] for tool in body["tools"]] for body in model.requests[:3]]
    before, unanswered = "user:begin assistant:add+see", "tool:Not executed: no answer to this call was given."
    assert seen["both"] == seen["again"] == f"{before} tool:one tool:two"
    assert offered == [["add", "see"], ["add", "see"], ["other"]]
    assert seen["reversed"] == f"{before} tool:two tool:one"
    assert seen["part"] == f"{before} tool:two {unanswered}"
    assert seen["none"] == f"{before} {unanswered} {unanswered} user:and?"
    assert seen["with a message"] == f"{before} tool:one tool:two user:and?"
    assert seen["rounds"] == [[[TEXT, TEXT]] * ROUNDS, " ".join(["tool:add tool:see"] * ROUNDS)]
    for model_id, kinds in (("text", ["message"]), ("call", []), ("reasoning", ["reasoning"])):
        items = [[kind, "incomplete"] for kind in kinds]
        assert seen[f"cut {model_id}"] == ["incomplete", "max_output_tokens", "response.incomplete", items]
