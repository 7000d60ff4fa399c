"""Letta's client 1.12, unmodified: agent files.

Covers: functions/letta/agents, dialects/letta/files, services/letta/importing
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)


def test_an_agent_is_exported_imported_and_exported_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        base_url = server.url + "/letta"
        with httpx.Client(base_url=f"{base_url}/v1") as http:
            human = {"label": "human", "value": "name: Bob"}
            agent = http.post("/agents", json={"name": "Sam", "llm": "offline", "memory_blocks": [human]}).json()
            for text in (
                "hi",
                "please send_message(message=hello)",
                "please core_memory_append(label=human, content=x)",
            ):
                sent = {"messages": [{"role": "user", "text": text}]}
                assert http.post(f"/agents/{agent['id']}/messages", json=sent).status_code == 200
            seen = run_script("letta-1", "letta_files", base_url, agent["id"])
            listed = [http.get(f"/agents/{each}/messages?limit=100").json() for each in (agent["id"], seen["made"])]
            sent = {"messages": [{"role": "user", "text": "please send_message(message=again)"}]}
            answer = http.post(f"/agents/{seen['made']}/messages", json=sent).json()
    assert seen["exported"][0] == "Sam"
    assert seen["exported"][1] > 6
    assert (seen["is_equal"], seen["is_new"]) == (True, True)
    assert (seen["copy"], seen["named"], seen["scrubbed"], seen["stripped"]) == ("Sam_copy", "Ann", [], [])
    assert [status for status, _ in seen["refused"]] == [422, 422, 422, 422, 422, 404]
    assert "'groups'], 'msg': 'this server has no groups of agents" in seen["refused"][0][1]
    assert "'skills'], 'msg': 'this server has no skills" in seen["refused"][1][1]
    kinds = [[each["message_type"] for each in messages[1:]] for messages in listed]
    assert kinds[0] == kinds[1]
    assert [each["message_type"] for each in answer["messages"]][-1] == "assistant_message"
