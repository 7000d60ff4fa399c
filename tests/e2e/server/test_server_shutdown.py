"""A stopping server accepts no new turn; running ones are finished and stored, or left to their lease.

Covers: functions/local
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, text_in, turn_body
from tests.support.models.seen_by_model import requests_ending_with
from tests.support.server.served import ONE_SECOND, WORDS, Served, begin_and_leave, received_until_killed
from tests.support.server.servers import ServerProcess, get_json, wait_until

pytestmark = pytest.mark.timeout(120)
CLEAN_EXITS = (0, -signal.SIGTERM)


def test_a_stopping_server_finishes_its_turn_and_streams_the_end(served: Served, model: ModelServer) -> None:
    server, client = served()
    session = client.open_session(ONE_SECOND)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        server.terminate()
        received = list(events)
    assert server.wait(timeout_s=10) in CLEAN_EXITS
    assert (received[-1]["event_type"], text_in(received)) == ("turn_complete", WORDS)

    server.start()
    assert client.get(f"{session}/turn/{turn_id}") == received[-1]["turn"]
    assert len(model.requests) == 1


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_stopping_server_finishes_a_turn_without_a_subscriber(
    by: signal.Signals, served: Served, model: ModelServer
) -> None:
    server, client = served()
    session = client.open_session(ONE_SECOND)
    turn_id = begin_and_leave(client, session)
    server.terminate(by)
    assert server.wait(timeout_s=10) in CLEAN_EXITS
    assert "Traceback" not in server.log

    server.start()
    turn = client.get(f"{session}/turn/{turn_id}")
    assert (turn["completed_at"] is not None, turn["output_message"]["content"]) == (True, WORDS)
    assert len(model.requests) == 1


def test_a_stopping_server_finishes_a_turn_that_it_took_over(served: Served, model: ModelServer) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session(ONE_SECOND)
    received = received_until_killed(server, client, f"{session}/turn", turn_body("a story"))
    server.start()
    wait_until(lambda: len(model.requests) == 2, 10, "the turn was not taken over")
    server.terminate()
    assert server.wait(timeout_s=10) in CLEAN_EXITS

    server.start()
    turn = client.get(f"{session}/turn/{received[0]['turn_id']}")
    assert (turn["completed_at"] is not None, turn["output_message"]["content"]) == (True, WORDS)
    assert len(model.requests) == 2


def test_a_stopping_server_accepts_no_new_turn(served: Served, model: ModelServer) -> None:
    server, client = served()
    session, other = client.open_session(ONE_SECOND), client.open_session()
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        next(events)
        server.terminate()
        wait_until(lambda: get_json(server.port, "/v1/health") is None, 10, "the server took new connections")
        with PlainClient(server.url) as newcomer, pytest.raises(httpx.ConnectError):
            newcomer.post(f"{other}/turn", turn_body("too late"))
        assert list(events)[-1]["event_type"] == "turn_complete"
    assert server.wait(timeout_s=10) in CLEAN_EXITS
    assert requests_ending_with(model.requests, "too late") == []


def test_a_turn_too_long_for_the_drain_is_left_to_its_lease(served: Served, model: ModelServer) -> None:
    server, client = served(drain_seconds=0.5, lease_seconds=1)
    session = client.open_session("stream-3")
    turn_id = begin_and_leave(client, session)
    server.terminate()
    server.wait(timeout_s=2.5)

    server.start()
    assert client.get(f"{session}/turn/{turn_id}")["completed_at"] is None
    turn = client.ended_turn(f"{session}/turn/{turn_id}")
    assert turn["output_message"]["content"].split() == [f"word{number}" for number in range(12)]
    assert len(model.requests) == 2


def test_a_drain_takes_no_longer_than_it_may(served: Served) -> None:
    server, client = served(drain_seconds=2)
    begin_and_leave(client, client.open_session("stream-6"))
    server.terminate()
    server.wait(timeout_s=3.5)


def test_a_drain_that_runs_out_is_no_crash(served: Served) -> None:
    server, client = served(drain_seconds=0.5)
    begin_and_leave(client, client.open_session("stream-3"))
    server.terminate()
    server.wait(timeout_s=10)
    assert "Traceback" not in server.log


def test_a_subscriber_receives_turn_continues_when_the_drain_runs_out(served: Served) -> None:
    server, client = served(drain_seconds=0.5)
    session = client.open_session("stream-3")
    url = f"http://127.0.0.1:{server.port}{session}/turn"
    with httpx.stream("POST", url, json={**turn_body("a story"), "stream": True}, timeout=20) as response:
        lines = response.iter_lines()
        assert "turn_start" in next(lines)
        server.terminate()
        received = [line for line in lines if line.startswith("data:")]
    assert '"error"' in received[-1]
    assert "continues later" in received[-1]
    assert '"code":"turn_continues"' in received[-1]


def test_a_waiting_request_is_answered_with_a_retry_when_the_drain_runs_out(served: Served) -> None:
    server, client = served(drain_seconds=0.5)
    session = client.open_session("slow-5")
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(client.post, f"{session}/turn", turn_body("a story"))
        wait_until(lambda: client_sees_a_turn(server, session), 10, "the turn did not begin")
        server.terminate()
        response = answered.result()
    assert response.status_code == 503
    error = response.json()
    assert ("send the request again" in error["detail"], error["code"]) == (True, "turn_continues")
    assert f"GET {session}/turn/" in error["detail"]


def client_sees_a_turn(server: ServerProcess, session: str) -> bool:
    with PlainClient(f"http://127.0.0.1:{server.port}") as reader:
        return bool(reader.get(session)["turns"])
