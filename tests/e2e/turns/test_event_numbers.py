"""Streams that are resumed by event number, also after the server was killed, and the stream of a cancelled turn.

Covers: services/turns/turn_events, dialects/llama_stack/turns/event_numbers
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.clients.plain_client import turn_body
from tests.support.server.served import ONE_SECOND, WORDS, Served, begin_and_leave

pytestmark = pytest.mark.timeout(120)

Event = tuple[int | None, dict[str, Any]]


def events_in(lines: Iterable[str]) -> Iterator[Event]:
    """Yield each event's id and payload as they come, an error chunk as it is."""
    number = None
    for line in lines:
        if found := re.fullmatch(r"id: (\d+)", line):
            number = int(found[1])
        elif line.startswith("data: "):
            chunk = json.loads(line.removeprefix("data: "))
            yield number, chunk["event"]["payload"] if "event" in chunk else chunk
            number = None


def received_from(url: str, *, until_id: int | None = None, **sent: Any) -> list[Event]:
    received: list[Event] = []
    with httpx.stream("GET", f"{url}/events", timeout=30, **sent) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        for event in events_in(response.iter_lines()):
            received.append(event)
            if until_id is not None and event[0] == until_id:
                break
    return received


def text_of(received: Iterable[Event]) -> str:
    """Return the text that a client has assembled: a step that starts replaces one that did not end."""
    text = ""
    for _, event in received:
        if event["event_type"] == "step_start":
            text = ""
        elif event["event_type"] == "step_progress":
            text += event["delta"]["text"]
    return text


def test_a_client_whose_server_is_killed_resumes_the_stream_by_its_last_id(served: Served) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session(ONE_SECOND)
    turn = f"{server.url}{session}/turn/{begin_and_leave(client, session)}"
    received = received_from(turn, until_id=4)
    assert [number for number, _ in received] == [1, 2, 3, 4]
    server.restart()
    rest = received_from(turn, headers={"Last-Event-ID": "4"})
    assert text_of([*received, *rest]) == WORDS
    numbers = [number for number, _ in rest if number is not None]
    assert numbers == list(range(5, 9))
    assert rest[-1][1]["event_type"] == "turn_complete"
    assert rest[-1][1]["turn"] == client.get(turn.removeprefix(server.url))


def test_a_client_that_only_lost_its_connection_receives_exactly_the_rest(served: Served) -> None:
    server, client = served()
    session = client.open_session(ONE_SECOND)
    turn = f"{server.url}{session}/turn/{begin_and_leave(client, session)}"
    received = received_from(turn, until_id=4)
    rest = received_from(turn, params={"after": "1"}, headers={"Last-Event-ID": "4"})
    assert [number for number, _ in [*received, *rest]] == list(range(1, 9))
    assert text_of([*received, *rest]) == WORDS


def test_an_invalid_event_number_is_refused(served: Served) -> None:
    server, client = served()
    session = client.open_session()
    turn_id = client.post(f"{session}/turn", turn_body("hello")).json()["turn_id"]
    url = f"{server.url}{session}/turn/{turn_id}/events"
    for sent in ({"params": {"after": "-1"}}, {"headers": {"Last-Event-ID": "x"}}):
        refused = httpx.get(url, **sent)  # type: ignore[arg-type]
        assert (refused.status_code, "must be an event's number" in refused.text) == (400, True)
    assert httpx.get(url.replace(turn_id, "unknown")).status_code == 404


def test_the_stream_of_a_request_has_no_ids(served: Served) -> None:
    _, client = served()
    session = client.open_session()
    answer = client.post(f"{session}/turn", {**turn_body("hello"), "stream": True})
    assert all(line.startswith("data: ") or not line for line in answer.text.splitlines())


def test_a_subscriber_of_a_cancelled_turn_receives_the_error_at_once(served: Served) -> None:
    server, client = served()
    session = client.open_session("stream-20")
    turn = f"{session}/turn/{begin_and_leave(client, session)}"
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(received_from, server.url + turn)
        cancelled = client.post(f"{turn}/cancel", {})
        assert (cancelled.status_code, cancelled.headers["x-turn-status"]) == (200, "cancelled")
        number, last = listening.result(10)[-1]
    assert "is cancelled" in last["error"]["message"]
    assert number == 2
    assert client.post(f"{turn}/cancel", {}).json() == cancelled.json()
    another = client.open_session()
    done = client.post(f"{another}/turn", turn_body("hello")).json()
    late = client.post(f"{another}/turn/{done['turn_id']}/cancel", {})
    assert (late.status_code, late.headers["x-should-retry"]) == (409, "false")
    assert "is completed" in late.json()["detail"]
