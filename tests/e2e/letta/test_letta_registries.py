"""Letta's own client, unmodified, at the routes of tools, memory blocks, contexts and tags.

Covers: functions/letta/tools, functions/letta/blocks, functions/letta/overview, dialects/letta/overview,
dialects/letta/server
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.models.openai_answers import Answer, call_chunk, chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(180)
ANSWER: Answer = (
    call_chunk(0, "send_message", '{"inner_thoughts": "Hm.", "message": "hello"}'),
    chunk({}, "tool_calls"),
    usage_chunk(10, 5),
)


def test_lettas_own_client_keeps_tools_blocks_and_tags(tmp_path: Path) -> None:
    with ModelServer([ANSWER]) as models, ServerProcess(tmp_path, model_url=models.url) as server:
        seen = run_script("letta", "letta_registries", server.url + "/letta")
    assert seen["made"] == ["team", 100, "sam", True, {"k": 1}]
    assert (seen["templates"], seen["named"], seen["labelled"]) == ([True], ["persona"], [True])
    assert seen["listed"] == ["human", "persona", "team"]
    assert seen["attached"] == [None, None]
    assert seen["changed"] == ["We like cake."] * 3
    assert seen["taken"] == [409, 409, 400]
    assert (seen["detached"], seen["survives"], seen["deleted"]) == (["human"], "We like cake.", True)
    assert seen["missing_blocks"] == [404] * 6
    assert seen["before"] == [1, 1, 0, 0]
    assert seen["after"] == [4, 1]
    assert (seen["counted"], seen["same"], seen["sums"]) == (True, True, True)
    assert seen["roles"] == ["system", "user", "assistant", "tool"]
    assert seen["core_memory"] == '<human characters="9/5000">\nname: Bob\n</human>'
    assert (len(seen["functions"]), seen["missing_context"]) == (6, 404)
    assert seen["tool"] == ["conversation_search"] * 2
    assert (seen["removed"], seen["added"]) == ([5, 5], [1, 1])
    assert seen["chosen"] == seen["listed_tools"] == ["conversation_search"]
    assert seen["missing_tools"] == [404] * 5
    assert (seen["tags"], seen["later_tags"], seen["found_tags"]) == (["Cat", "a", "b"], ["a"], ["Cat"])
    assert seen["embeddings"] == [["static", 256]]
    (request,) = models.requests
    assert request["messages"][0]["content"].endswith(seen["core_memory"])
