"""A function is frozen when its answer is out: every call of AWS is done by then.

Covers: edge/gateway, services/threads/daemon_threads
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import botocore.client
import pytest

from functions.agents import create_agent
from functions.sessions import create_session
from functions.turns import create_turn, resume_turn
from tests.support.aws.aws_events import Context, load_event
from tests.support.aws.state_machine import Bench
from turnstone.edge.gateway import LambdaHandler

WEATHER = {"name": "get_weather", "description": "Weather of a city", "parameters": []}
LATER_S = 0.5
pytestmark = pytest.mark.usefixtures("in_a_lambda")


class Api:
    """The functions, called one after the other, and their calls of AWS."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        make = botocore.client.BaseClient._make_api_call

        def recorded(client: Any, operation: str, request: Any) -> Any:
            self.calls.append(operation)
            return make(client, operation, request)

        patch.setattr(botocore.client.BaseClient, "_make_api_call", recorded)

    def post(self, module: Any, name: str, body: dict[str, Any], **ids: str) -> tuple[dict[str, Any], list[str]]:
        """Return the answer, and the calls that were made until it was there."""
        event = load_event(name)
        event["path"] = event["resource"].format(**ids)
        event["body"] = json.dumps(body)
        del self.calls[:]
        answer = LambdaHandler("another module", module.ROUTE, loads=module.handler._loads)(event, Context())
        made = list(self.calls)
        assert answer["statusCode"] == 200, answer
        return json.loads(answer["body"]), made

    def made_later(self) -> list[str]:
        """Return the calls made since, by whatever still runs."""
        before = len(self.calls)
        time.sleep(LATER_S)
        return self.calls[before:]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with Bench(lambda _: {"next": "watch", "seconds": 600, "status": "in_progress"}) as bench:
        for name, value in bench.environment.items():
            monkeypatch.setenv(name, value)
        yield Api(monkeypatch)


def test_nothing_is_left_to_do_when_the_answer_is_there(api: Api) -> None:
    config = {"model": "offline", "instructions": "", "toolgroups": ["builtin::clock"], "client_tools": [WEATHER]}
    agent, _ = api.post(create_agent, "create_agent", {"agent_config": config})
    session, _ = api.post(create_session, "create_session", {"session_name": "s"}, **agent)
    ids = {**agent, **session}

    plain, made = api.post(create_turn, "create_turn", turn_body("what is current_time(timezone=UTC) now?"), **ids)
    assert [step["step_type"] for step in plain["steps"]] == ["inference", "tool_execution", "inference"]
    assert made.count("TransactWriteItems") == 4
    assert api.made_later() == []

    paused, made = api.post(create_turn, "create_turn", turn_body("please get_weather(city=Oslo)"), **ids)
    assert made.count("StartExecution") == 1
    assert [call for call in api.made_later() if call != "UpdateItem"] == []  # the machine's own

    pending = paused["output_message"]["tool_calls"][0]
    response = {"call_id": pending["call_id"], "tool_name": pending["tool_name"], "content": "rain"}
    resumed, made = api.post(
        resume_turn, "resume_turn", {"stream": False, "tool_responses": [response]}, turn_id=paused["turn_id"], **ids
    )
    assert resumed["completed_at"] is not None
    assert made.count("SendTaskSuccess") == 1
    assert api.made_later() == []


def turn_body(words: str) -> dict[str, Any]:
    return {"stream": False, "messages": [{"role": "user", "content": words}]}
