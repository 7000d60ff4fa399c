"""A repeated request has no second effect, recognised by its Idempotency-Key or by its client's retry count.

Covers: services/turns/joining, store/layout/idempotency
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import Json, PlainClient, answering, text_in, turn_body
from tests.support.models.seen_by_model import requests_ending_with
from tests.support.server.served import ONE_SECOND, TOOL, WORDS
from tests.support.server.servers import ServerProcess

CONFIG = {"model": "instant", "instructions": "Be brief."}

pytestmark = pytest.mark.timeout(120)  # a stream that never ends would be kept alive by its pings


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def server(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("server")
    with ServerProcess(folder, model_url=model.url) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[PlainClient]:
    with PlainClient(server.url) as client:
        yield client


def fresh_key() -> str:
    return f"key-{uuid4()}"


def fresh_text() -> str:
    """Return a text that no other test sends to the model."""
    return f"something {uuid4()}"


def open_paused_turn(client: PlainClient) -> tuple[str, Json]:
    """Return the path of a turn that awaits the answer of a tool, and the turn."""
    session = client.open_session("tool:get_weather", client_tools=[TOOL])
    turn = client.post(f"{session}/turn", turn_body(fresh_text())).json()
    assert turn["output_message"]["stop_reason"] == "end_of_message"
    return f"{session}/turn/{turn['turn_id']}", turn


def expect_key_taken(response: Any) -> None:
    assert response.status_code == 409
    assert "Idempotency-Key" in response.json()["detail"]
    assert response.headers["x-should-retry"] == "false"


# ── by Idempotency-Key ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_agent_is_created_once_under_a_key(client: PlainClient) -> None:
    key = fresh_key()
    first, again = (client.post("/v1/agents", {"agent_config": CONFIG}, idempotency_key=key) for _ in range(2))
    assert (again.status_code, again.content) == (first.status_code, first.content)
    other = {"agent_config": {**CONFIG, "instructions": "Be verbose."}}
    expect_key_taken(client.post("/v1/agents", other, idempotency_key=key))
    assert client.post("/v1/agents", other, idempotency_key=fresh_key()).json() != first.json()


def test_a_session_is_created_once_under_a_key(client: PlainClient) -> None:
    path = client.open_session().rpartition("/")[0]
    key = fresh_key()
    first, again = (client.post(path, {"session_name": "a"}, idempotency_key=key) for _ in range(2))
    assert (again.status_code, again.content) == (first.status_code, first.content)
    expect_key_taken(client.post(path, {"session_name": "b"}, idempotency_key=key))
    assert client.post(path, {"session_name": "a"}).json() != first.json()


def test_a_key_is_valid_for_one_path_only(client: PlainClient) -> None:
    key, text = fresh_key(), fresh_text()
    one, two = client.open_session(), client.open_session()
    first = client.post(f"{one}/turn", turn_body(text), idempotency_key=key).json()
    second = client.post(f"{two}/turn", turn_body(text), idempotency_key=key).json()
    assert (first["session_id"], second["session_id"]) == (one.rpartition("/")[2], two.rpartition("/")[2])


def test_a_turn_runs_once_under_a_key(client: PlainClient, model: ModelServer) -> None:
    session, key, text = client.open_session("words-5"), fresh_key(), fresh_text()
    first, again = (client.post(f"{session}/turn", turn_body(text), idempotency_key=key) for _ in range(2))
    assert first.json()["output_message"]["content"] == "word0 word1 word2 word3 word4 "
    assert (again.status_code, again.content) == (first.status_code, first.content)
    expect_key_taken(client.post(f"{session}/turn", turn_body("other"), idempotency_key=key))
    assert client.get(session)["turns"] == [first.json()]
    assert len(requests_ending_with(model.requests, text)) == 1


def test_a_key_still_counts_after_other_turns(client: PlainClient, model: ModelServer) -> None:
    session, key, text = client.open_session(), fresh_key(), fresh_text()
    first = client.post(f"{session}/turn", turn_body(text), idempotency_key=key)
    client.post(f"{session}/turn", turn_body("and now for something else"))
    again = client.post(f"{session}/turn", turn_body(text), idempotency_key=key)
    assert again.content == first.content
    assert len(client.get(session)["turns"]) == 2
    assert len(requests_ending_with(model.requests, text)) == 1


def test_a_streamed_turn_runs_once_under_a_key(client: PlainClient, model: ModelServer) -> None:
    session, key, text = client.open_session("words-5"), fresh_key(), fresh_text()
    first, again = (client.streamed(f"{session}/turn", turn_body(text), idempotency_key=key) for _ in range(2))
    assert steps_in(again) == steps_in(first) == ["turn_start", "step_start", "step_complete", "turn_complete"]
    assert (again[0], again[-1]) == (first[0], first[-1])
    assert text_in(again) == text_in(first) == "word0 word1 word2 word3 word4 "
    expect_key_taken(client.post(f"{session}/turn", {**turn_body("other"), "stream": True}, idempotency_key=key))
    assert len(requests_ending_with(model.requests, text)) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_is_resumed_once_under_a_key(stream: bool, client: PlainClient, model: ModelServer) -> None:
    turn, paused = open_paused_turn(client)
    key, body = fresh_key(), answering(paused, "rain")
    if stream:
        first, again = (client.streamed(f"{turn}/resume", body, idempotency_key=key)[-1] for _ in range(2))
        assert first["event_type"] == "turn_complete"
        ended = first["turn"]
    else:
        first, again = (client.post(f"{turn}/resume", body, idempotency_key=key).json() for _ in range(2))
        ended = first
    assert again == first
    assert (ended["turn_id"], ended["output_message"]["content"]) == (paused["turn_id"], "ok")
    other = {**answering(paused, "snow"), "stream": stream}
    expect_key_taken(client.post(f"{turn}/resume", other, idempotency_key=key))
    assert client.get(turn) == ended
    assert len(requests_ending_with(model.requests, paused["input_messages"][0]["content"])) == 2


def test_a_paused_turn_is_returned_again_under_its_key(client: PlainClient, model: ModelServer) -> None:
    session, key, text = client.open_session("tool:get_weather", client_tools=[TOOL]), fresh_key(), fresh_text()
    first, again = (client.post(f"{session}/turn", turn_body(text), idempotency_key=key) for _ in range(2))
    assert first.json()["output_message"]["tool_calls"]
    assert again.content == first.content
    assert len(requests_ending_with(model.requests, text)) == 1


@pytest.mark.parametrize("header", ["idempotency_key", "x_stainless_retry_count"])
def test_a_repeated_request_follows_the_running_turn_from_its_start(
    header: str, client: PlainClient, server: ServerProcess, model: ModelServer
) -> None:
    session, text = client.open_session(ONE_SECOND), fresh_text()
    value = fresh_key() if header == "idempotency_key" else "1"
    first_headers = {header: value} if header == "idempotency_key" else {}
    with client.streaming(f"{session}/turn", turn_body(text), **first_headers) as events:
        begun = [next(events)]
        while len(begun) < 4:
            begun.append(next(events))
        with PlainClient(server.url) as other:
            followed = other.streamed(f"{session}/turn", turn_body(text), **{header: value})
        events_of_first = begun + list(events)
    assert followed == events_of_first
    assert (events_of_first[0]["event_type"], events_of_first[-1]["event_type"]) == ("turn_start", "turn_complete")
    assert text_in(events_of_first) == WORDS
    assert client.get(session)["turns"] == [events_of_first[-1]["turn"]]
    assert len(requests_ending_with(model.requests, text)) == 1


# ── by the retry count of the official clients ───────────────────────────────────────────────────────────────────


def test_a_retry_for_the_whole_answer_joins_the_running_turn(
    client: PlainClient, server: ServerProcess, model: ModelServer
) -> None:
    session, text = client.open_session("slow-1"), fresh_text()
    with PlainClient(server.url, timeout_s=0.3) as impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post(f"{session}/turn", turn_body(text), x_stainless_retry_count="0")
    turn = client.post(f"{session}/turn", turn_body(text), x_stainless_retry_count="1").json()
    assert turn["output_message"]["content"] == "ok"
    assert client.get(session)["turns"] == [turn]
    assert len(requests_ending_with(model.requests, text)) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_retry_gets_the_answer_of_the_turn_that_ended(stream: bool, client: PlainClient, model: ModelServer) -> None:
    session, text = client.open_session("words-5"), fresh_text()
    if stream:
        first = client.streamed(f"{session}/turn", turn_body(text))
        again = client.streamed(f"{session}/turn", turn_body(text), x_stainless_retry_count="2")
        assert (again[0], again[-1], text_in(again)) == (first[0], first[-1], text_in(first))
    else:
        first, again = (
            client.post(f"{session}/turn", turn_body(text), x_stainless_retry_count=count).json()
            for count in ("0", "1")
        )
        assert again == first
    assert len(client.get(session)["turns"]) == len(requests_ending_with(model.requests, text)) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_retried_resume_joins_the_resumed_turn(stream: bool, client: PlainClient, model: ModelServer) -> None:
    turn, paused = open_paused_turn(client)
    body = answering(paused, "rain")
    if stream:
        first = client.streamed(f"{turn}/resume", body)[-1]
        again = client.streamed(f"{turn}/resume", body, x_stainless_retry_count="1")[-1]
    else:
        first = client.post(f"{turn}/resume", body).json()
        again = client.post(f"{turn}/resume", body, x_stainless_retry_count="1").json()
    assert again == first
    assert len(requests_ending_with(model.requests, paused["input_messages"][0]["content"])) == 2


def test_an_equal_message_without_a_retry_count_is_another_turn(client: PlainClient, model: ModelServer) -> None:
    session, text = client.open_session(), fresh_text()
    first, second = (
        client.post(f"{session}/turn", turn_body(text), x_stainless_retry_count="0").json() for _ in range(2)
    )
    assert client.get(session)["turns"] == [first, second]
    assert len(requests_ending_with(model.requests, text)) == 2


def test_a_retry_of_a_request_that_never_arrived_is_another_turn(client: PlainClient) -> None:
    session = client.open_session()
    first = client.post(f"{session}/turn", turn_body("one")).json()
    second = client.post(f"{session}/turn", turn_body("two"), x_stainless_retry_count="1").json()
    assert client.get(session)["turns"] == [first, second]


def test_a_retry_with_another_body_waits_for_the_running_turn(
    client: PlainClient, server: ServerProcess, model: ModelServer
) -> None:
    session, other = client.open_session(ONE_SECOND), fresh_text()
    with client.streaming(f"{session}/turn", turn_body(fresh_text())) as events:
        turn_id = next(events)["turn_id"]
        with PlainClient(server.url) as second:
            refused = second.post(f"{session}/turn", turn_body(other), x_stainless_retry_count="1")
        list(events)
    assert refused.status_code == 409
    assert turn_id in refused.json()["detail"]
    assert requests_ending_with(model.requests, other) == []


def test_a_refused_second_equal_message_may_not_be_retried(client: PlainClient, server: ServerProcess) -> None:
    """Its client's retry would be taken for a repetition of the first message, and the second one would be lost."""
    session, text = client.open_session(ONE_SECOND), fresh_text()
    with client.streaming(f"{session}/turn", turn_body(text)) as events:
        next(events)
        with PlainClient(server.url) as second:
            # the bytes differ from the first request, which requests a stream
            other = second.post(f"{session}/turn", turn_body(text))
            equal = second.post(f"{session}/turn", {**turn_body(text), "stream": True})
        list(events)
    assert [other.status_code, equal.status_code] == [409, 409]
    assert "x-should-retry" not in other.headers
    assert equal.headers["x-should-retry"] == "false"


def steps_in(events: list[Json]) -> list[str]:
    return [event["event_type"] for event in events if event["event_type"] != "step_progress"]
