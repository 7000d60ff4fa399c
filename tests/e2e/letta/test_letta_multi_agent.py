"""Letta's own client, unmodified: agents that send messages to each other.

Covers: services/letta/multi_agent, dialects/letta/requests, dialects/letta/tools
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
CALL = "send_message_to_agent_and_wait_for_reply"
CALL_BY_TAGS = "send_message_to_agents_matching_all_tags"


def model(body: Mapping[str, Any]) -> Answer:
    """Call by the verb of the newest message; greet otherwise."""
    verb, _, rest = str(body["messages"][-1]["content"]).partition(" ")
    name, arguments = "send_message", {"message": "hello"}
    if verb == "call":
        name, arguments = CALL, {"message": "hi there", "other_agent_id": rest}
    elif verb == "tags":
        name, arguments = CALL_BY_TAGS, {"message": "hi all", "tags": [rest]}
    text = json.dumps({"inner_thoughts": "Hm.", **arguments})
    return (call_chunk(0, name, text, f"c{len(body['messages'])}"), chunk({}, "tool_calls"), usage_chunk(10, 5))


def test_lettas_own_client_has_agents_that_call_each_other(tmp_path: Path) -> None:
    with ModelServer(model) as served, ServerProcess(tmp_path, model_url=served.url) as server:
        seen = run_script("letta", "letta_multi_agent", server.url + "/letta")
    assert seen["kinds"] == dict.fromkeys((CALL, "send_message_to_agent_async", CALL_BY_TAGS), "letta_multi_agent_core")
    answer, of_tags, missing = seen["answers"]
    assert answer == "hello"
    assert json.loads(of_tags) == [{"agent_id": seen["bob"], "name": "Bob", "response": "hello"}]
    assert missing == "agent '00000000-0000-0000-0000-000000000000' not found"
    assert [text.rpartition("\n")[2] for text in seen["received"]] == ["hi there", "hi all"]
    assert all(seen["ann"] in text for text in seen["received"])
