"""A turn that was accepted with 202 completes once, through kills, restarts and other processes over the same data.

Covers: functions/turns, services/turns/recovery, bootstrap/places/local
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.served import ONE_SECOND, WORDS, Served
from tests.support.server.servers import wait_until

pytestmark = pytest.mark.timeout(120)
ASYNC = {"prefer": "respond-async"}


def accepted(client: PlainClient, session: str, text: str = "a story", **headers: str) -> dict[str, Any]:
    answer = client.post(f"{session}/turn", turn_body(text), **ASYNC, **headers)
    assert answer.status_code == 202, answer.text
    turn: dict[str, Any] = answer.json()
    assert (answer.headers["location"], answer.headers["preference-applied"]) == (turn["turn_url"], "respond-async")
    return turn


def test_it_answers_at_once_and_the_turn_can_be_followed_and_read(served: Served, model: ModelServer) -> None:
    _, client = served()
    session = client.open_session(ONE_SECOND)
    turn = accepted(client, session)
    assert turn["status"] == "in_progress"
    assert client.get(turn["turn_url"])["completed_at"] is None
    events = client.get_events(turn["events_url"])
    assert (events[0]["event_type"], events[-1]["event_type"]) == ("turn_start", "turn_complete")
    assert client.get(turn["turn_url"])["output_message"]["content"] == WORDS
    assert len(model.requests) == 1


def test_killed_right_after_202_it_completes_once(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    turn = accepted(client, client.open_session(ONE_SECOND))
    server.kill()
    before = len(model.requests)
    server.start()
    ended = client.ended_turn(turn["turn_url"])
    assert ended["output_message"]["content"] == WORDS
    assert [step["step_type"] for step in ended["steps"]] == ["inference"]
    assert len(model.requests) == before + 1


def test_killed_in_the_middle_it_keeps_its_steps(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session("clock-then-slow", toolgroups=["builtin::clock"])
    turn = accepted(client, session, "what time is it?")
    wait_until(lambda: len(client.get(turn["turn_url"])["steps"]) == 2, 10, "no steps are stored")
    steps = client.get(turn["turn_url"])["steps"]
    server.kill()
    server.start()
    ended = client.ended_turn(turn["turn_url"])
    assert ended["steps"][:2] == steps
    assert [step["step_type"] for step in ended["steps"]] == ["inference", "tool_execution", "inference"]


def busy(served: Served, **settings: Any) -> tuple[Any, PlainClient, list[dict[str, Any]]]:
    """Return a server with one slot, and the turns it accepted: a running one, and two that are queued."""
    server, client = served(lease_seconds=1, max_running_turns=1, **settings)
    turns = [accepted(client, client.open_session(ONE_SECOND), text) for text in ("one", "two", "three")]
    assert [turn["status"] for turn in turns] == ["in_progress", "queued", "queued"]
    return server, client, turns


def assert_each_completed_once(client: PlainClient, turns: list[dict[str, Any]]) -> None:
    for turn in turns:
        ended = client.ended_turn(turn["turn_url"])
        assert ended["output_message"]["content"] == WORDS
        assert len(client.get(turn["turn_url"].rpartition("/turn/")[0])["turns"]) == 1


def test_queued_turns_survive_a_kill(served: Served, model: ModelServer) -> None:
    server, client, turns = busy(served)
    server.kill()
    before = len(model.requests)
    server.start()
    assert_each_completed_once(client, turns)
    assert len(model.requests) == before + 3


def test_queued_turns_survive_a_stop(served: Served, model: ModelServer) -> None:
    server, client, turns = busy(served, drain_seconds=5)
    wait_until(lambda: len(model.requests) == 1, 10, "the model was not called")
    server.terminate()
    server.wait(20)
    assert len(model.requests) == 1
    server.start()
    assert_each_completed_once(client, turns)
    assert len(model.requests) == 3


def test_two_processes_over_one_folder_run_each_once(served: Served, model: ModelServer) -> None:
    _, client, turns = busy(served, processes=2)
    assert_each_completed_once(client, turns)
    assert len(model.requests) == 3


def test_a_repeated_request_is_accepted_with_the_same_turn(served: Served, model: ModelServer) -> None:
    _, client = served()
    session = client.open_session(ONE_SECOND)
    first = accepted(client, session, idempotency_key="once")
    client.ended_turn(first["turn_url"])
    again = accepted(client, session, idempotency_key="once")
    assert again == {**first, "status": "completed"}
    assert len(model.requests) == 1


@pytest.mark.parametrize("body", [{"stream": True}])
def test_the_preference_is_not_applied_to_a_stream(served: Served, body: dict[str, Any]) -> None:
    _, client = served()
    session = client.open_session("words-1")
    answer = client.post(f"{session}/turn", {**turn_body("hello"), **body}, **ASYNC)
    assert (answer.status_code, "preference-applied" in answer.headers) == (200, False)
