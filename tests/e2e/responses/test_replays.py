"""OpenAI's own client, unmodified, streams a response again: in another process, and after a kill in its middle.

Covers: functions/responses, dialects/openai/responses/stream, services/streams/event_cursor
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.served import ONE_SECOND, WORDS, Served
from tests.support.server.servers import ServerProcess, wait_until

pytestmark = pytest.mark.timeout(120)
PATH = "/v1/openai/v1/responses"


def received(server: ServerProcess, most: int, **body: Any) -> list[dict[str, Any]]:
    """Return the first events of a new response, at most so many, and hang up."""
    events = []
    request = {"model": ONE_SECOND, "input": "a story", "stream": True, **body}
    with httpx.stream("POST", server.url + PATH, json=request, timeout=30) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
            if len(events) == most:
                break
    return events


def ended(server: ServerProcess, response_id: str) -> None:
    def is_over() -> bool:
        answer = httpx.get(f"{server.url}{PATH}/{response_id}").json()
        return answer["status"] not in ("queued", "in_progress")

    wait_until(is_over, 30, "the response does not end")


def assert_replayed(server: ServerProcess, whole: list[dict[str, Any]]) -> None:
    """Assert that both ways of the client repeat the stream from each number."""
    response = whole[-1]["response"]
    seen = run_script("openai", "openai_replays", server.url + "/v1/openai/v1", response["id"])
    assert seen["whole"] == whole
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    for after, (rest, numbers, text) in enumerate(seen["rests"]):
        assert rest == whole[after + 1 :]
        assert numbers == list(range(after + 1, len(whole)))
        assert text == WORDS
    assert seen["read"] == response


def test_each_part_of_a_stream_is_repeated_in_the_same_process_and_in_the_next(served: Served) -> None:
    server, _ = served()
    whole = received(server, 1_000)
    assert_replayed(server, whole)
    server.restart()
    assert_replayed(server, whole)


def test_after_a_kill_in_the_middle_the_rest_continues_what_was_received(served: Served, model: ModelServer) -> None:
    server, _ = served(lease_seconds=1)
    first = received(server, 6)
    server.restart()
    response_id = first[0]["response"]["id"]
    ended(server, response_id)
    with httpx.stream("GET", f"{server.url}{PATH}/{response_id}?stream=true&starting_after=5", timeout=30) as answer:
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    union = {event["sequence_number"]: event for event in (*first, *map(json.loads, data))}
    whole = [union[number] for number in sorted(union)]
    response = whole[-1]["response"]
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    assert "".join(event["delta"] for event in whole if event["type"].endswith("output_text.delta")) == WORDS
    assert response["output"][0]["content"][0]["text"] == WORDS
    assert len(model.requests) == 2
