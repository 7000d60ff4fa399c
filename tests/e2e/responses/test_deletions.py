"""OpenAI's own client, unmodified: deleted items and responses are gone, and the others stay.

Covers: services/responses/conversations, services/responses/responses
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)


def answer(body: Mapping[str, Any]) -> Answer:
    """Return a call for the message `call`, and else the texts of all messages of users and tools."""
    messages = body["messages"]
    if messages[-1]["content"] == "call":
        return call_answer(("add", "{}"))
    return text_answer("|".join(each["content"] for each in messages if each["role"] in ("user", "tool")))


def test_deleted_items_and_responses_are_gone_and_others_stay(tmp_path: Path) -> None:
    with ModelServer(answer) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_deletions", server.url + "/v1")
        sent = [[message["role"], message["content"]] for message in model.requests[3]["messages"]]
    assert seen["before"] == ["hello", "hello", "call", "function_call", "function_call_output", "hello|call|sum"]
    assert seen["after"] == ["hello", "call", "function_call_output", "hello|call|sum"]
    assert seen["seen"] == "hello|call|and?"
    assert sent == [["user", "hello"], ["user", "call"], ["assistant", "hello|call|sum"], ["user", "and?"]]
    assert seen["missing"] == ["NotFoundError"] * 4
    assert seen["listed"] == [True, False, True]
    assert (seen["child"], seen["parent"]) == ("one|two|three|four", "one|four")
