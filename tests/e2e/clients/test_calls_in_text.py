"""The official client's agents that read calls out of the text of a completed turn, and resume it all the same.

Covers: services/turns/transitions, functions/turns
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import VERSIONS, run_script
from tests.support.models.seen_by_model import seen
from tests.support.server.stores import STORES, server_over

MODES = (*(("streaming", store) for store in STORES), ("whole", "sqlite"))
CASES = [(version, *mode) for version in VERSIONS for mode in MODES]
ALWAYS = (("0.2.12", "whole", "sqlite"), ("0.2.23", "streaming", "dynamodb"))

pytestmark = pytest.mark.timeout(120)

TEXT = ["step_start inference", "step_progress inference text", "step_complete inference", "turn_complete"]
RESUMED = ["step_complete tool_execution", *TEXT]
ACTION = {"tool_name": "get_weather", "tool_params": [{"name": "city", "value": "Oslo"}]}
CALLS = json.dumps({"thought": "I look.", "action": ACTION, "answer": None})
ANSWERS = json.dumps({"thought": "I know.", "action": None, "answer": "It rains."})
PARSED_ANSWERS = ("look: Oslo", "look: Rome", "Both are wet.")


def answer_of(body: Mapping[str, Any]) -> Answer:
    """Answer a request of the two models: calls of the weather tool until the request has its results."""
    since = max(n for n, message in enumerate(body["messages"]) if message["role"] == "user")
    results = sum(message["role"] == "tool" for message in body["messages"][since:])
    if body["model"] == "parsing":
        return text_answer(PARSED_ANSWERS[results])
    is_thanked = "Thanks." in body["messages"][-1]["content"]
    return text_answer(ANSWERS if results or is_thanked else CALLS)


@pytest.mark.parametrize(("version", "mode", "store"), rest_at_night(CASES, always=ALWAYS))
def test_calls_are_read_out_of_the_text_of_completed_turns(
    version: str, mode: str, store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with ModelServer(answer_of) as model, server_over(store, tmp_path, request, model_url=model.url) as server:
        seen_by_client = run_script(version, "react_agent", server.url, mode)

    kinds, turn = seen_by_client["react"]
    assert turn["steps"] == ["inference", "tool_execution", "inference"]
    assert (turn["content"], turn["stop_reason"], turn["calls"], turn["is_over"]) == (ANSWERS, "end_of_turn", [], True)
    assert seen_by_client["kept"] == [turn, seen_by_client["thanked"][1]]
    (step,) = seen_by_client["tool_steps"]
    (response,) = step["tool_responses"]
    assert (step["tool_calls"], response["tool_name"], response["content"]) == ([], "get_weather", '"rain in Oslo"')
    assert seen_by_client["is_in_order"]
    assert seen_by_client["refused"][0] == 409
    assert "only the newest turn" in seen_by_client["refused"][1]
    if mode == "streaming":
        assert kinds == ["turn_start", *TEXT, *RESUMED]
        # the client keeps to itself the end that it resumes a second time
        assert seen_by_client["parsed"][0] == ["turn_start", *TEXT, *RESUMED[:-1], *RESUMED]

    first, resumed, thanked = (request for request in model.requests if request["model"] == "react")
    assert [tool["function"]["name"] for tool in first["tools"]] == ["get_weather"]
    assert first["messages"][0]["content"].count("get_weather") > 1  # the agent's own instructions are the prompt
    assert [message["role"] for message in resumed["messages"]] == ["system", "user", "assistant", "tool"]
    assert resumed["messages"][2]["content"] == CALLS
    assert resumed["messages"][3]["content"] == '"rain in Oslo"'
    assert resumed["messages"][:2] == first["messages"]
    assert thanked["messages"][:4] == resumed["messages"]
    assert thanked["messages"][4] == {"role": "assistant", "content": ANSWERS}

    _, parsed = seen_by_client["parsed"]
    assert (parsed["content"], parsed["steps"]) == (
        PARSED_ANSWERS[-1],
        ["inference", *["tool_execution", "inference"] * 2],
    )
    assert seen_by_client["ran"] == ["Oslo", "Oslo", "Rome"]
    last = [request for request in model.requests if request["model"] == "parsing"][-1]
    assert [line.partition(":")[0] for line in seen(last)] == ["system", "user", *["assistant", "tool"] * 2]
