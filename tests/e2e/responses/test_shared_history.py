"""One session in turns of the Agents API, of responses, each by its official client, and of `turnstone chat`.

It has one order and one history.

Covers: functions/command/chat, services/responses/responses, services/turns/opening,
  dialects/openai/responses/conversation_items
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.clients.terminal import chatted
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
HISTORY = [
    ["system", "Be brief."],
    ["user", "look"],
    ["assistant", None],
    ["tool", "a tree"],
    ["assistant", "answer 3"],
    ["user", "by a response"],
    ["assistant", "answer 5"],
    ["user", "by a turn"],
    ["assistant", "answer 7"],
    ["user", "by the chat"],
    ["assistant", "answer 9"],
    ["user", "by a response"],
]
ITEMS = ["message", "function_call", "function_call_output", *["message"] * 9]


def calls_first(body: Mapping[str, Any]) -> Answer:
    """Return a call for the first message, and then texts with the number of messages."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    return call_answer(("look", "{}")) if len(messages) == 1 else text_answer(f"answer {len(messages)}")


def test_agents_api_responses_and_chat_continue_one_session_in_turns(tmp_path: Path) -> None:
    with ModelServer(calls_first) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        begun = run_script("0.2.23", "shared_history", server.url, "begin")
        agent_id, session_id = begun["ids"]
        answered = run_script("openai", "openai_shared_history", server.url + "/v1", "answer", agent_id, session_id)
        continued = run_script("0.2.23", "shared_history", server.url, "turn", agent_id, session_id)
        talk = chatted(server.url, "by the chat", "--session", f"{agent_id}/{session_id}")
        last = run_script("openai", "openai_shared_history", server.url + "/v1", "respond", agent_id, session_id)
        read = run_script("0.2.23", "shared_history", server.url, "read", agent_id, session_id)
        seen = [[each["role"], each.get("content")] for each in model.requests[-1]["messages"]]
    assert begun["turn"][0][0] == "look"
    assert answered["waiting"] == ["message", "function_call"]
    assert answered["refused"] == "input[0].call_id"
    assert (answered["answered"], answered["next"], continued["turn"]) == ("answer 3", "answer 5", "answer 7")
    assert (talk.stdout, last["next"], last["items"]) == ("answer 9\n", "answer 11", ITEMS)
    assert [[role, content or None] for role, content in seen] == HISTORY
    assert [output for _, output in read["turns"]] == ["", *(f"answer {number}" for number in (3, 5, 7, 9, 11))]
