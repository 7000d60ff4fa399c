"""The server as a process: stored data outlives it, and a turn continues after its client has left.

Covers: functions/local
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, answering, text_in, turn_body
from tests.support.models.seen_by_model import seen
from tests.support.server.served import ONE_SECOND, TOOL, WORDS, Served, received_until_killed
from tests.support.server.servers import wait_until

pytestmark = pytest.mark.timeout(120)  # a stream that never ends would be kept alive by its pings


# ── restarts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_survives_a_restart(served: Served, model: ModelServer) -> None:
    server, client = served()
    session = client.open_session("words-3")
    for text in ("one", "two"):
        client.post(f"{session}/turn", turn_body(text))
    before = client.get(session)
    agent = client.get(session.partition("/session/")[0])

    server.restart()
    assert client.get(session) == before
    assert client.get(session.partition("/session/")[0]) == agent
    third = client.post(f"{session}/turn", turn_body("three")).json()
    assert client.get(session)["turns"] == [*before["turns"], third]
    history = [line for text in ("one", "two") for line in (f"user: {text}", "assistant: word0 word1 word2 ")]
    assert seen(model.requests[-1]) == ["system: Be brief.", *history, "user: three"]


def test_a_paused_turn_can_be_resumed_after_a_restart(served: Served, model: ModelServer) -> None:
    server, client = served()
    session = client.open_session("tool:get_weather", client_tools=[TOOL])
    paused = client.post(f"{session}/turn", turn_body("weather?")).json()
    server.restart()
    assert client.get(f"{session}/turn/{paused['turn_id']}") == paused
    resumed = client.post(f"{session}/turn/{paused['turn_id']}/resume", answering(paused, "rain")).json()
    assert (resumed["turn_id"], resumed["output_message"]["content"]) == (paused["turn_id"], "ok")
    assert seen(model.requests[-1])[1:] == ["user: weather?", "assistant: get_weather({})", "tool: rain"]


@pytest.mark.parametrize("is_down_at_the_deadline", [False, True])
def test_a_paused_turn_expires_though_the_server_was_restarted(
    is_down_at_the_deadline: bool, served: Served, model: ModelServer
) -> None:
    server, client = served(await_seconds=2)
    session = client.open_session("tool:get_weather", client_tools=[TOOL])
    paused = client.post(f"{session}/turn", turn_body("weather?")).json()
    turn = f"{session}/turn/{paused['turn_id']}"
    server.kill()
    if is_down_at_the_deadline:
        time.sleep(2)
    server.start()

    time.sleep(1 if is_down_at_the_deadline else 3)
    # The first request about the turn: the server has to have expired it without one.
    expired = client.get(turn)
    assert expired["completed_at"] is not None
    assert expired["steps"] == paused["steps"]
    late = client.post(f"{turn}/resume", answering(paused, "rain"))
    assert late.status_code == 409
    assert "expired" in late.json()["detail"]
    assert late.headers["x-should-retry"] == "false"

    client.post(f"{session}/turn", turn_body("never mind"))
    *before, answer, question = seen(model.requests[-1])
    assert before == ["system: Be brief.", "user: weather?", "assistant: get_weather({})"]
    assert answer.startswith("tool: Not executed")
    assert question == "user: never mind"


# ── crashes ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_whose_server_was_killed_is_taken_over_and_completed(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session(ONE_SECOND)
    received = received_until_killed(server, client, f"{session}/turn", turn_body("a story"))
    server.start()

    # No request names the turn: the server has to find it without one.
    wait_until(lambda: len(model.requests) == 2, 10, "the turn was not taken over")
    turn = client.ended_turn(f"{session}/turn/{received[0]['turn_id']}")
    assert [step["step_type"] for step in turn["steps"]] == ["inference"]
    assert turn["output_message"]["content"] == WORDS
    assert len(model.requests) == 2
    following = client.post(f"{session}/turn", turn_body("and then?")).json()
    assert client.get(session)["turns"] == [turn, following]
    assert seen(model.requests[-1])[1:] == ["user: a story", f"assistant: {WORDS}", "user: and then?"]


def test_steps_stored_before_the_kill_are_not_done_again(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session("clock-then-slow", toolgroups=["builtin::clock"])
    received = received_until_killed(server, client, f"{session}/turn", turn_body("what time is it?"))
    finished = [event["step_details"] for event in received if event["event_type"] == "step_complete"]
    assert [step["step_type"] for step in finished] == ["inference", "tool_execution"]
    server.start()

    turn = client.ended_turn(f"{session}/turn/{received[0]['turn_id']}")
    assert turn["steps"][:2] == finished
    assert [step["step_type"] for step in turn["steps"]] == ["inference", "tool_execution", "inference"]
    assert turn["output_message"]["content"] == "It is late."
    assert len(model.requests) == 3


def test_a_retry_after_a_crash_gets_the_answer_of_the_turn_taken_over(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session(ONE_SECOND)
    received = received_until_killed(server, client, f"{session}/turn", turn_body("a story"))
    server.start()

    again = client.streamed(f"{session}/turn", turn_body("a story"), x_stainless_retry_count="1")
    assert (again[0], text_in(again)) == (received[0], WORDS)
    assert client.get(session)["turns"] == [again[-1]["turn"]]
    assert len(model.requests) == 2


def test_a_whole_answer_is_retried_over_a_crash(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session(ONE_SECOND)
    with ThreadPoolExecutor(1) as pool, PlainClient(server.url) as unlucky:
        lost = pool.submit(unlucky.post, f"{session}/turn", turn_body("a story"))
        wait_until(lambda: len(model.requests) == 1, 10, "the model was not called")
        server.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            lost.result()
    server.start()

    turn = client.post(f"{session}/turn", turn_body("a story"), x_stainless_retry_count="1").json()
    assert turn["output_message"]["content"] == WORDS
    assert client.get(session)["turns"] == [turn]
    assert len(model.requests) == 2


def test_a_resume_whose_server_was_killed_needs_no_second_tool_answer(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=2)
    session = client.open_session("clock-then-slow", client_tools=[{**TOOL, "name": "current_time"}])
    paused = client.post(f"{session}/turn", turn_body("what time is it?")).json()
    turn = f"{session}/turn/{paused['turn_id']}"
    received = received_until_killed(server, client, f"{turn}/resume", answering(paused, "noon"))
    assert received[0]["step_details"]["tool_responses"][0]["content"] == "noon"
    server.start()

    again = client.streamed(f"{turn}/resume", answering(paused, "noon"), x_stainless_retry_count="1")
    assert again[-1]["event_type"] == "turn_complete"
    ended = again[-1]["turn"]
    assert ended["steps"][:2] == [*paused["steps"], received[0]["step_details"]]
    assert (len(ended["steps"]), ended["output_message"]["content"]) == (3, "It is late.")
    assert client.get(session)["turns"] == [ended]
    assert [seen(request)[-1] for request in model.requests[1:]] == ["tool: noon", "tool: noon"]


# ── disconnected clients ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_continues_when_its_client_disconnects(served: Served, model: ModelServer) -> None:
    _, client = served()
    session = client.open_session(ONE_SECOND)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        next(event for event in events if event["event_type"] == "step_progress")
    assert client.get(f"{session}/turn/{turn_id}")["completed_at"] is None

    turn = client.ended_turn(f"{session}/turn/{turn_id}")
    assert (len(turn["steps"]), turn["output_message"]["content"]) == (1, WORDS)
    assert client.get(session)["turns"] == [turn]
    assert len(model.requests) == 1
