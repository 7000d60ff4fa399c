"""Letta's own client, unmodified, at the routes of agents, memory blocks and messages.

Covers: functions/letta, dialects/letta, services/letta, store/letta, domain/letta, bootstrap/services/agents
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_chunk, chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(180)
UNKNOWN = "agent '00000000-0000-0000-0000-000000000000' not found"


def called(name: str, **arguments: Any) -> Answer:
    return (call_chunk(0, name, json.dumps(arguments)), chunk({}, "tool_calls"), usage_chunk(10, 5))


class Model:
    """Answers by the newest message, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[Mapping[str, Any]] = []

    def __call__(self, body: Mapping[str, Any]) -> Answer:
        self.requests.append(body)
        text = str(body["messages"][-1]["content"])
        if text.startswith("remember: "):
            content = text.removeprefix("remember: ")
            return called(
                "core_memory_append",
                inner_thoughts="I keep that.",
                label="human",
                content=content,
                request_heartbeat=True,
            )
        if text.startswith("find: "):
            query = text.removeprefix("find: ")
            return called("archival_memory_search", inner_thoughts="I look.", query=query, request_heartbeat=True)
        return called("send_message", inner_thoughts="I answer.", message=f"echo {text[:10]}")


def test_lettas_own_client_keeps_an_agent_with_memory(tmp_path: Path) -> None:
    with ModelServer(model := Model()) as served, ServerProcess(tmp_path, model_url=served.url) as server:
        seen = run_script("letta", "letta_agents", server.url + "/letta")
    assert seen["health"] == "ok"
    assert (
        seen["tools"][:6]
        == seen["agent_tools"]
        == [
            *("send_message", "core_memory_append", "core_memory_replace"),
            *("archival_memory_insert", "archival_memory_search", "conversation_search"),
        ]
    )
    assert [name.startswith("send_message_to_agent") for name in seen["tools"][6:]] == [True] * 3
    assert seen["added"] == 9
    assert seen["created"] == ["Sam", "words", "http://127.0.0.1:1/v1", ["a", "b"], {"k": 1}]
    assert seen["blocks"] == [["human", "name: Bob", 5000], ["persona", "I am Sam", 5000]]
    assert (seen["same"], seen["found"], seen["not_found"]) == (True, [True], [])
    assert seen["pet"] == [3, "dog", "dog"]
    assert (seen["removed"], seen["labels"]) == (2, ["human", "persona"])
    answer = [["reasoning_message", "I answer."], ["assistant_message", "echo hi"]]
    assert seen["first"] == answer
    assert seen["usage"] == [1, 2, 15]
    kept = [
        ["reasoning_message", "I keep that."],
        ["tool_call_message", "core_memory_append"],
        ["tool_return_message", "The block 'human' has 19 of 5000 characters now."],
        ["reasoning_message", "I answer."],
        ["assistant_message", "echo [Automated"],
    ]
    assert seen["second"] == kept
    assert seen["human"] == "name: Bob\nlikes tea"
    assert [kind for kind, _ in seen["streamed"]] == [*(kind for kind, _ in kept), "usage_statistics"]
    assert [kind for kind, _ in seen["listed"]] == [
        *("user_message", "reasoning_message", "tool_call_message", "tool_return_message")
    ]
    assert (seen["oldest"], seen["same_ids"]) == ("system_message", True)
    assert seen["counted"] == 1 + 3 + 6 + 6, "the system message, and the rows of three turns"
    assert seen["updated"] == ["Sam 2", "Be brief. {CORE_MEMORY}", [], {"k": 1}]
    assert (seen["passages"], seen["after"], seen["size"]) == (["Grass is green"], [], 1)
    assert "Grass is green" in dict(seen["searched"])["tool_return_message"]
    assert seen["reset"] == ["system_message"]
    assert seen["raised"][0] == [404, f"{{'detail': \"{UNKNOWN}\", 'code': 'agent_not_found'}}"]
    assert [each[0] for each in seen["raised"][1:]] == [400, 422, 404, 404, 400, 404, 404, 404]
    assert (seen["deleted"], seen["gone"][0]) == (True, 404)
    assert (seen["by_handles"], seen["embedding"]) == (["words", "p/words"], ["vectors", "p/vectors", 300])
    assert seen["begun"][1:] == [["user_message", "hello"]]
    assert seen["rules"] == [
        *(["InitToolRule", "conversation_search"], ["ToolRule", "conversation_search"]),
        *(["conditional", "archival_memory_search"], ["TerminalToolRule", "send_message"]),
    ]
    last = model.requests[-1]
    assert last["messages"][0]["content"].startswith("Be brief. Memory, last changed")
    assert "likes cake" in last["messages"][0]["content"]
    assert last["tool_choice"] == "required"
    parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in last["tools"]}
    assert list(parameters["core_memory_append"]["properties"]) == [
        *("inner_thoughts", "label", "content", "request_heartbeat")
    ]
    assert list(parameters["send_message"]["properties"]) == ["inner_thoughts", "message"]
