"""A turn without an answer has its failure in every reply, in the server's own words.

Covers: services/turns/turn_failures, store/sessions/wire_turns
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.models.openai_answers import Answer, built_in_answer, error_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import VERSIONS, run_script
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.served import TOOL
from tests.support.server.servers import ServerProcess
from tests.support.server.stores import STORES, server_over

QUOTED = "your message 'a private question' is too private"


def answer_of(body: Mapping[str, Any]) -> Answer:
    return error_answer(400, QUOTED) if body["model"] == "broken" else built_in_answer(body)


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=VERSIONS[-1:]))
@pytest.mark.parametrize("store", rest_at_night(STORES, always=("sqlite",)))
def test_official_clients_read_why_a_turn_has_no_answer(
    version: str, store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with ModelServer(answer_of) as model, server_over(store, tmp_path, request, model_url=model.url) as server:
        seen = run_script(version, "unanswered_turns", server.url)
    assert seen["refused"] == [502, "failed"]
    assert seen["status"] == "failed"
    assert seen["in_session"] == seen["read"]
    failure = seen["read"]["failure"]
    assert (failure["status"], failure["kind"]) == ("failed", "model_failed")
    assert failure["message"] == f"turn {seen['read']['turn_id']!r} is failed: its model's server answered HTTP 400"
    shown = json.dumps(failure)
    assert QUOTED not in shown
    assert str(model.port) not in shown
    assert [turn["content"] for turn in seen["told"]] == ["", ""]


def test_cancelled_and_expired_turns_have_a_failure_and_completed_ones_none(tmp_path: Path) -> None:
    with (
        ModelServer(answer_of) as model,
        ServerProcess(tmp_path, model_url=model.url, await_seconds=1) as server,
        PlainClient(server.url) as client,
    ):
        session = client.open_session(f"tool:{TOOL['name']}", client_tools=[TOOL])
        cancelled = client.post(f"{session}/turn", turn_body("one"))
        assert cancelled.headers["x-turn-status"] == "awaiting_input"
        client.post(f"{session}/turn/{cancelled.json()['turn_id']}/cancel", {})
        expired = client.post(f"{session}/turn", turn_body("two")).json()["turn_id"]
        client.ended_turn(f"{session}/turn/{expired}")
        plain = client.open_session()
        done = client.post(f"{plain}/turn", turn_body("three"))
        assert (done.headers["x-turn-status"], "failure" in done.json()) == ("completed", False)
        turns = client.get(session)["turns"]
        assert [turn["failure"]["status"] for turn in turns] == ["cancelled", "expired"]
        assert "before the deadline" in turns[1]["failure"]["message"]
        assert turns == [client.get(f"{session}/turn/{turn['turn_id']}") for turn in turns]

        _, _, _, agent_id, _, session_id = session.split("/")
        ids = {"agent_id": agent_id, "session_id": session_id}
        assert client.post("/agents/session/get", ids).json()["turns"] == turns
        for how in (
            client.post("/agents/turn/get", {**ids, "turn_id": expired}),
            httpx.get(f"{server.url}/agents/turn/get", params={**ids, "turn_id": expired}),
        ):
            assert (how.headers["x-turn-status"], how.json()) == ("expired", turns[1])
