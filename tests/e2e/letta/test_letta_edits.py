"""Letta's own client, unmodified: edited messages are those of the next turn.

Covers: functions/letta/messages, services/letta/editing
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

pytestmark = pytest.mark.timeout(120)


def test_lettas_own_client_edits_messages(tmp_path: Path) -> None:
    requests: list[Mapping[str, Any]] = []

    def model(body: Mapping[str, Any]) -> Answer:
        requests.append(body)
        arguments = json.dumps({"inner_thoughts": "I answer.", "message": "hello"})
        return (call_chunk(0, "send_message", arguments), chunk({}, "tool_calls"), usage_chunk(10, 5))

    with ModelServer(model) as served, ServerProcess(tmp_path, model_url=served.url) as server:
        seen = run_script("letta", "letta_edits", server.url + "/letta")
    assert seen["edited"] == [True, "user", "edited input", True, None]
    assert seen["result"] == ["tool", "edited result", "send_message", True]
    assert (seen["refused"], seen["same"]) == ([404, 400], True)
    assert "edited input" in seen["listed"]
    texts = [each["content"] for each in requests[-1]["messages"]]
    assert "edited input" in texts
    assert "edited result" in texts
    assert "hi" not in texts
