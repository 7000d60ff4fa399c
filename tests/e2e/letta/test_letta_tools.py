"""Letta's own client, unmodified: tools of Python, run in a jail, and where they are off.

Covers: functions/letta/tools, services/letta/tools, services/letta/python_tools, dialects/letta/custom,
dialects/letta/environment
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_chunk, chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess
from tests.support.tools.jailed import can_jail
from turnstone.domain.letta.python_runs import OFF

__all__ = ["can_jail"]
pytestmark = pytest.mark.timeout(180)
SECRET = "hush-4711"
FILE = 'default_provider = "p"\n[providers.p]\ntype = "openai"\nurl = "{url}"\n'


def called(name: str, **arguments: Any) -> Answer:
    given = json.dumps({"inner_thoughts": "Hm.", **arguments})
    return (call_chunk(0, name, given), chunk({}, "tool_calls"), usage_chunk(10, 5))


SCRIPT = [
    called("roll", sides=6, request_heartbeat=True),
    called("fail", text="no", request_heartbeat=False),
    called("send_message", message="done"),
]


def played(tmp_path: Path, act: str, runs: str) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
    """Return the report of the script, the log of the server, and the requests to the model."""
    with ModelServer(SCRIPT) as models:
        file = tmp_path / "turnstone.toml"
        file.write_text(FILE.format(url=models.url) + runs)
        with ServerProcess(tmp_path, config=file) as server:
            seen = run_script("letta", "letta_tools", server.url + "/letta", act)
        return seen, server.log, models.requests


def expect_registry(seen: dict[str, Any]) -> None:
    assert seen["made"] == ["roll", "Roll a die.", "custom", "python", ["dice"], 6000]
    assert list(seen["schema"]["properties"]) == ["sides", "request_heartbeat"]
    assert seen["schema"]["properties"]["sides"] == {"type": "integer", "description": "number of sides"}
    assert seen["again"] == [True, "Roll it.", [], 50]
    assert seen["changed"] == ["Mine.", ["new"], 50]
    assert seen["read"] == [True, True]
    assert (seen["listed"][-1], len(seen["listed"]), seen["later"][-1]) == ("roll", 10, "roll")
    assert seen["refused"] == [409, 409, 422, 422, 400, 404, 404]


def test_lettas_own_client_creates_runs_and_deletes_tools(tmp_path: Path, can_jail: None) -> None:
    seen, log, requests = played(tmp_path, "on", '[tools.python_tools]\nruns = "here"\n')
    expect_registry(seen)
    assert (seen["tools"], seen["variable"]) == (["fail", "roll"], ["API_KEY", "**********", True])
    assert seen["types"] == [
        *("reasoning_message", "tool_call_message", "tool_return_message"),
        *("reasoning_message", "tool_call_message", "tool_return_message"),
        *("reasoning_message", "assistant_message"),
    ]
    assert seen["returned"] == [
        ["success", "6 Bob 9", ["rolling\n"]],
        ["error", "Error executing function fail: ValueError: no", []],
    ]
    assert seen["last_error"] == "ValueError: no"
    names = [[tool["function"]["name"] for tool in request["tools"]] for request in requests]
    assert (names[0], "fail" in names[1]) == (["roll"], True)
    assert "agent_state" not in json.dumps(requests[0]["tools"])
    assert {"fail", "roll"} <= set(seen["offered"])
    assert (seen["left"], seen["cleared"], seen["gone"]) == (["roll"], 0, 404)
    assert seen["runs"] == [
        ["success", "done", []],
        ["success", "12", ["v\n"]],
        ["error", "Error executing function fail: ValueError: no", []],
    ]
    assert seen["ids"] == ["null", "null"]
    assert SECRET not in log + json.dumps(requests)
    assert "rolling" not in log


def test_tools_can_be_created_where_they_are_off(tmp_path: Path) -> None:
    seen, _, _ = played(tmp_path, "off", "")
    expect_registry(seen)
    assert seen["runs"] == [["error", OFF, []]] * 3
