"""The first published requests that list and describe agents, sent by the real curl.

The answers are the published ones, except for new ids and times, for nulls, which were left out and are written out
now, for the list of sessions, which was bare before lists had pages, and for the order of agents, which is now that of
their creation.

Covers: functions/agents, functions/unserved
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.cases import rest_at_night
from tests.support.needs import need_programs
from tests.support.server.servers import ServerProcess
from tests.support.server.stores import STORES, server_over

JSON_HEADERS = ("--header", "Accept: application/json", "--header", "Content-Type: application/json")
TIMEOUT_S = 30.0
PARAMETER = {
    "name": "string",
    "parameter_type": "string",
    "description": "string",
    "required": True,
    "default": None,
}
NOTHING = {"property1": None, "property2": None}
AGENT_CONFIG: dict[str, Any] = {
    "sampling_params": {"strategy": {"type": "greedy"}, "max_tokens": 0, "repetition_penalty": 1},
    "input_shields": ["string"],
    "output_shields": ["string"],
    "toolgroups": ["string"],
    "client_tools": [{"name": "string", "description": "string", "parameters": [PARAMETER], "metadata": NOTHING}],
    "tool_choice": "auto",
    "tool_prompt_format": "json",
    "tool_config": {"tool_choice": "auto", "tool_prompt_format": "json", "system_message_behavior": "append"},
    "max_infer_iters": 10,
    "model": "string",
    "instructions": "string",
    "enable_session_persistence": False,
    "response_format": {"type": "json_schema", "json_schema": NOTHING},
}
DESCRIBED = {**AGENT_CONFIG, "name": None, "sampling_params": {**AGENT_CONFIG["sampling_params"], "stop": None}}


WHOLE = {"has_more": False, "cursor": None}  # the fields of a list without a next page


@pytest.fixture(params=rest_at_night(STORES, always=("sqlite",)))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_over(request.param, tmp_path_factory.mktemp("server"), request) as server:
        yield server


def curl(*arguments: str) -> tuple[int, Any]:
    """Return the status and the JSON that curl receives, without a proxy and without its user's settings."""
    need_programs("curl")
    command = ["curl", "--disable", "--noproxy", "*", "--silent", "--show-error", "--write-out", "\n%{http_code}"]
    ended = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    body, _, status = ended.stdout.rpartition("\n")
    return int(status), json.loads(body)


def post(url: str, body: object) -> Any:
    status, answer = curl("--request", "POST", "--url", url, *JSON_HEADERS, "--data", json.dumps(body, indent=2))
    assert status == 200, answer
    return answer


def get(url: str) -> Any:
    status, answer = curl(url)
    assert status == 200, answer
    return answer


def test_the_published_requests_for_agents_and_sessions_work_with_curl(server: ServerProcess) -> None:
    agents = f"{server.url}/v1/agents"
    made = [post(agents, {"agent_config": AGENT_CONFIG}) for _ in range(2)]
    assert [list(answer) for answer in made] == [["agent_id"]] * 2
    agent_ids = [answer["agent_id"] for answer in made]
    assert len(set(agent_ids)) == 2

    described = [get(f"{agents}/{agent_id}") for agent_id in agent_ids]
    for agent, agent_id in zip(described, agent_ids, strict=True):
        created_at = agent.pop("created_at")
        assert agent == {"agent_id": agent_id, "agent_config": DESCRIBED}
        assert datetime.fromisoformat(created_at).utcoffset() is not None
        agent["created_at"] = created_at
    assert get(agents) == {"data": described, **WHOLE, "url": "/v1/agents"}

    sessions = [post(f"{agents}/{agent_ids[0]}/session", {"session_name": "string"}) for _ in range(2)]
    assert [list(answer) for answer in sessions] == [["session_id"]] * 2
    listed = get(f"{agents}/{agent_ids[0]}/sessions")
    for entry in listed["data"]:
        datetime.fromisoformat(entry.pop("started_at"))
    shown = [{**answer, "session_name": "string", "turns": []} for answer in sessions]
    assert listed == {"data": shown, **WHOLE, "url": f"/v1/agents/{agent_ids[0]}/sessions"}


def test_a_turn_of_the_published_agent_names_the_missing_toolgroup_and_shield(
    server: ServerProcess,
) -> None:
    """It names a model, shields and a toolgroup that do not exist: an agent may, a turn may not."""
    agents = f"{server.url}/v1/agents"
    agent_id = post(agents, {"agent_config": AGENT_CONFIG})["agent_id"]
    session_id = post(f"{agents}/{agent_id}/session", {"session_name": "string"})["session_id"]
    turn = {"messages": [{"role": "user", "content": "string"}], "stream": False}
    url = f"{agents}/{agent_id}/session/{session_id}/turn"
    status, answer = curl("--request", "POST", "--url", url, *JSON_HEADERS, "--data", json.dumps(turn))
    (problem,) = answer["error"]["detail"]["errors"]
    assert (status, problem["loc"]) == (400, ["toolgroups"])
    shields_only = {"agent_config": {**AGENT_CONFIG, "toolgroups": [], "response_format": None}}
    agent_id = post(agents, shields_only)["agent_id"]
    session_id = post(f"{agents}/{agent_id}/session", {"session_name": "string"})["session_id"]
    url = f"{agents}/{agent_id}/session/{session_id}/turn"
    status, answer = curl("--request", "POST", "--url", url, *JSON_HEADERS, "--data", json.dumps(turn))
    (problem,) = answer["error"]["detail"]["errors"]
    assert (status, problem["loc"]) == (400, ["input_shields"])
    assert get(f"{agents}/{agent_id}/session/{session_id}")["turns"] == []


@pytest.mark.parametrize(
    ("fields", "location"),
    [
        ({"max_infer_iters": 101}, ["agent_config", "max_infer_iters"]),
        ({"client_tools": [{"name": ""}]}, ["agent_config", "client_tools", 0, "name"]),
    ],
)
def test_an_invalid_agent_field_is_named_by_its_location_in_the_body(
    server: ServerProcess, fields: dict[str, object], location: list[str | int]
) -> None:
    body = {"agent_config": {"model": "offline", "instructions": "", **fields}}
    arguments = ("--request", "POST", "--url", f"{server.url}/v1/agents", *JSON_HEADERS, "--data", json.dumps(body))
    status, answer = curl(*arguments)
    (problem,) = answer["error"]["detail"]["errors"]
    assert (status, problem["loc"]) == (400, location)
    assert "max_infer_iters" not in fields or "TURNSTONE_MAX_INFER_ITERS" in problem["msg"]
