"""Letta's own client, unmodified: a conversation outgrows the window, and the server is killed before its summary.

Covers: services/turns/summarizing, services/turns/recovery, dialects/letta/messages
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_chunk, chunk, ending, text_chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(180)
FILE = """default_provider = "fake"
[providers.fake]
type = "openai"
url = "{url}"

[models.small]
provider = "fake"
context_tokens = 6000
"""
SUMMED_UP = "They like tea."


class Model:
    """Answers with the summary that it sees, and counts a token for four characters."""

    def __init__(self) -> None:
        self.summaries = 0
        self.alerted = 0
        self.on_summary: Callable[[], object] = lambda: None

    def __call__(self, body: Mapping[str, Any]) -> Answer:
        messages = body["messages"]
        prompt = len(json.dumps(messages)) // 4
        if "tools" not in body:
            self.summaries += 1
            self.on_summary()
            return (text_chunk(SUMMED_UP), *ending("stop"), usage_chunk(prompt, 10))
        texts = [str(each["content"]) for each in messages]
        self.alerted += any("has nearly filled the context window" in text for text in texts)
        answer = next((text for text in texts if text.startswith("[Summary")), "a" * 400)
        arguments = json.dumps({"inner_thoughts": "Hm.", "message": answer})
        tools = len(json.dumps(body["tools"])) // 4
        return (
            call_chunk(0, "send_message", arguments, f"c{len(messages)}"),
            chunk({}, "tool_calls"),
            usage_chunk(prompt + tools, 100),
        )


def test_a_conversation_continues_with_its_summary_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    with ModelServer(model := Model()) as fake:
        file.write_text(FILE.format(url=fake.url))
        with ServerProcess(tmp_path, config=file, lease_seconds=1) as server:
            model.on_summary = server.kill
            begun = run_script("letta", "letta_pressure", server.url + "/letta", "fill", "small")
            model.on_summary = lambda: None
            server.start()
            ended = run_script("letta", "letta_pressure", server.url + "/letta", "go_on", begun["agent"])
    assert begun["killed_at"] > 3
    assert model.summaries == 2, "the summary was lost with the process"
    assert model.alerted > 0
    assert ended["questions"] == [f"{number:03}" for number in range(begun["killed_at"] + 1)]
    assert (len(ended["alerts"]), ended["roles"]) == (1, ["user"])
    assert ended["answer"] == [f"[Summary of the earlier conversation]\n{SUMMED_UP}"]
    assert (ended["summary"], ended["counted"]) == (SUMMED_UP, True)
