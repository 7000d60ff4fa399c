"""OpenAI's Agents SDK, unmodified, over responses: tools, a handoff, a guardrail, streams, sessions; stored and not.

Covers: functions/responses, dialects/openai/responses/input/items, dialects/openai/responses/conversation_items
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, chunk, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
THOUGHT = chunk({"reasoning_content": "Hm."})


def answer(body: Mapping[str, Any]) -> Answer:
    """Hand off as the first agent; as the other one, think, call `add` once in a run, and answer with the sum."""
    messages = body["messages"]
    if messages[0]["content"] == "Be first.":
        return (THOUGHT, *call_answer(("transfer_to_other", "{}")))
    since_user = messages[max(index for index, each in enumerate(messages) if each["role"] == "user") :]
    answers = [each["content"] for each in since_user if each["role"] == "tool"]
    if "7" in answers:
        return text_answer("It is 7.")
    return (THOUGHT, *call_answer(("add", '{"a": 3, "b": 4}')))


def test_the_agents_sdk_runs_over_responses(tmp_path: Path) -> None:
    with ModelServer(answer) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_agents_responses", server.url + "/v1/openai/v1")
    once = ["It is 7.", "other"]
    for name in ("stored", "unstored"):
        for run in ("run", "streamed"):
            for output, agent, kinds in seen[f"{name}_{run}"]:
                assert [output, agent] == once
                assert kinds == [
                    *("reasoning_item", "handoff_call_item", "handoff_output_item"),
                    *("reasoning_item", "tool_call_item", "tool_call_output_item", "message_output_item"),
                ]
    assert seen["guarded"] is True
    items = ["message", *["reasoning", "function_call", "function_call_output"] * 2, "message"]
    output, kinds, popped, left, again, total, newest = seen["session"]
    assert (output, kinds, popped, left, again) == ("It is 7.", items, "It is 7.", len(items) - 1, "It is 7.")
    assert (total, newest) == (2 * len(items) - 1, ["function_call_output", "message"])
    assert seen["cleared"] == 404
    assert seen["conversation"] == ["It is 7.", items]
    assert seen["listed"] == [True]
