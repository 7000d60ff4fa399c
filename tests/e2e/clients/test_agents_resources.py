"""Every method of the official clients' agents resources, over either store, by both kinds of client.

Covers: functions/agents, functions/sessions, functions/turns, functions/steps
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess
from tests.support.server.stores import STORES, server_over

NOT_YET: set[str] = set()  # unserved methods, refused as unknown ones
VERSIONS = ("0.2.12", "0.2.23", "0.3.5")
ALWAYS = (("sqlite", "0.2.12"), ("sqlite", "0.3.5"), ("dynamodb", "0.2.23"))
LISTS = {"0.2.23", "0.3.5"}  # the versions that list agents and sessions
PAUSED = ["turn_start", "step_start inference", "step_progress inference tool_call", "step_complete inference"]
RESUMED = ["step_complete tool_execution", "step_start inference", "step_progress inference text"]
STEPS = ["inference", "tool_execution", "inference"]

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_over(request.param, tmp_path_factory.mktemp("server"), request) as server:
        yield server


@pytest.mark.parametrize(
    ("server", "version"), rest_at_night(product(STORES, VERSIONS), always=ALWAYS), indirect=["server"], scope="module"
)
def test_every_method_of_the_agents_resources_works(version: str, server: ServerProcess) -> None:
    seen = run_script(version, "agents_resources", server.url, ",".join(sorted(NOT_YET)))
    assert set(seen) == {"LlamaStackClient", "AsyncLlamaStackClient"}
    for by_client in seen.values():
        check_turns(by_client)
        if version in LISTS:
            check_lists(by_client)
        check_deletes(by_client)


def check_turns(seen: dict[str, Any]) -> None:
    streamed, whole = seen["streaming"], seen["whole"]
    assert streamed["paused_kinds"] == [*PAUSED, "turn_awaiting_input"]
    assert streamed["resumed_kinds"] == [*RESUMED, "step_complete inference", "turn_complete"]
    for turn in (streamed, whole):
        paused, resumed = turn["paused"], turn["resumed"]
        assert turn["waiting"] == paused
        assert (paused["steps"], paused["stop_reason"], paused["is_over"]) == (["inference"], "end_of_message", False)
        assert [call[:2] for call in paused["calls"]] == [["get_weather", {"city": "Oslo"}]]
        assert turn["retrieved"] == resumed
        assert (resumed["turn_id"], resumed["steps"], resumed["calls"]) == (paused["turn_id"], STEPS, [])
        assert resumed["is_over"]
        assert "rain, 7 °C" in resumed["content"]
        assert resumed["step_ids"][:1] == paused["step_ids"]
        assert turn["steps"] == [list(step) for step in zip(STEPS, resumed["step_ids"], strict=True)]
    session_id = seen["ids"][1]
    assert seen["session"] == [session_id, "first", [streamed["resumed"], whole["resumed"]]]
    assert seen["some"] == [whole["resumed"]]


def check_lists(seen: dict[str, Any]) -> None:
    agent_id, *session_ids = seen["ids"]
    assert seen["agent"] == [agent_id, "forecaster", "get_weather"]
    assert seen["agents"][-1] == agent_id
    assert seen["sessions"] == session_ids


def check_deletes(seen: dict[str, Any]) -> None:
    """Assert that deletions remove their object and nothing else, and that unserved methods are refused."""
    assert seen["not_yet"] == dict.fromkeys(NOT_YET, 405)
    if "agents.session.delete" not in NOT_YET:
        assert seen["session_deleted"] == [None, True, True, [seen["ids"][2]]]
    if "agents.delete" not in NOT_YET:
        assert seen["agent_deleted"] == [None, True, True, False]
