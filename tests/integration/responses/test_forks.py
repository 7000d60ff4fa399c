"""Responses that continue an older one, or one whose conversation has continued, over both stores.

Covers: services/responses/forking, services/responses/fitting, services/responses/responses
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.cases import rest_at_night
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server, attempt
from tests.support.engine.responses import begun, calls_of_store, read, responded
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import HistoryTooLong, InvalidRequest, TurnRunning
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.registry.registry import Model

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}


def texts_of(request: InferenceRequest) -> list[Any]:
    return [message.content for message in request.messages]


def output(call_id: str, text: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def test_two_responses_continue_the_same_one_without_each_other(make: Make) -> None:
    server = make("one", "left", "right", "more")
    first = responded(server, input="start")
    left = responded(server, input="to the left", previous_response_id=first["id"])
    right = responded(server, input="to the right", previous_response_id=first["id"])
    assert texts_of(server.inference.requests[2]) == ["start", "one", "to the right"]
    responded(server, input="on", previous_response_id=right["id"])
    assert texts_of(server.inference.requests[3]) == ["start", "one", "to the right", "right", "on"]
    assert [read(server, each["id"]) for each in (first, left, right)] == [first, left, right]


def test_an_older_response_of_a_long_conversation_is_continued(make: Make) -> None:
    words = "word " * 500
    server = make(*(f"answer {number} {words}" for number in range(12)), "fork", context_tokens=2_000)
    chain = [responded(server, input="0")]
    for number in range(1, 12):
        chain.append(responded(server, input=str(number), previous_response_id=chain[-1]["id"], truncation="auto"))
    responded(server, input="other", previous_response_id=chain[4]["id"], truncation="auto")
    sent = texts_of(server.inference.requests[-1])
    assert (sent[-1], sent[-2].split()[:2]) == ("other", ["answer", "4"])
    assert not any(text.startswith("answer 5") for text in sent)


def test_a_fork_takes_over_what_its_context_holds_and_is_refused_where_that_is_not_the_whole(make: Make) -> None:
    words = "word " * 500
    server = make(*(f"answer {number} {words}" for number in range(12)), "fork", "on", context_tokens=2_000)
    chain = [responded(server, input="0")]
    for number in range(1, 12):
        chain.append(responded(server, input=str(number), previous_response_id=chain[-1]["id"], truncation="auto"))
    with pytest.raises(HistoryTooLong):
        responded(server, input="other", previous_response_id=chain[8]["id"])
    fork = responded(server, input="other", previous_response_id=chain[8]["id"], truncation="auto")
    with pytest.raises(HistoryTooLong):
        responded(server, input="more", previous_response_id=fork["id"])
    responded(server, input="more", previous_response_id=fork["id"], truncation="auto")
    assert texts_of(server.inference.requests[-1])[-3:] == ["other", "fork", "more"]


def test_a_fork_takes_over_as_much_as_a_large_context_holds(make: Make) -> None:
    server = make(*["word " * 100] * 20, "fork", context_tokens=1_000)
    metadata = {"context_tokens": 100_000}
    large = Model(identifier="large", provider_resource_id="l", provider_id="default", metadata=metadata)
    server.core.models.register(LOCAL_CALLER, large, attempt())
    chain = [responded(server, input="0", model="large")]
    for number in range(1, 20):
        chain.append(responded(server, input=str(number), previous_response_id=chain[-1]["id"], model="large"))
    responded(server, input="other", previous_response_id=chain[17]["id"], model="large")
    questions = [*map(str, range(18)), "other"]
    assert texts_of(server.inference.requests[-1])[::2] == questions


def test_a_fork_answers_the_same_calls_again(make: Make) -> None:
    server = make(call("add", "c1", a=1), "three", "four")
    called = responded(server, tools=[ADD])
    for text in ("3", "4"):
        responded(server, input=[output("c1", text)], previous_response_id=called["id"], tools=[ADD])
    assert [texts_of(request)[-1] for request in server.inference.requests[1:]] == ["3", "4"]
    with pytest.raises(InvalidRequest):
        responded(server, input=[output("c2", "5")], previous_response_id=called["id"], tools=[ADD])


def test_a_response_is_continued_while_a_later_one_runs(make: Make) -> None:
    held = Held("slow")
    server = make("one", held, "quick")
    first = responded(server, input="start")
    running = begun(server, input="slowly", previous_response_id=first["id"])
    held.wait()
    quick = responded(server, input="quickly", previous_response_id=first["id"], drain_all=False)
    assert quick["output"][0]["content"][0]["text"] == "quick"
    with pytest.raises(TurnRunning):
        responded(server, previous_response_id=running)
    held.open()
    server.settle()
    assert read(server, running)["status"] == "completed"


def test_parallel_requests_continue_one_response_each_alone(make: Make) -> None:
    server = make("one", "a", "b")
    first = responded(server, input="start")
    other = make("c")
    made: list[dict[str, Any]] = []
    threads = [
        Thread(target=lambda s=each: made.append(responded(s, input="x", previous_response_id=first["id"])))
        for each in (server, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [response["status"] for response in made] == ["completed"] * 2
    assert all(len(texts_of(each.inference.requests[-1])) == 3 for each in (server, other))


def test_a_fork_outlives_the_conversation_that_it_came_from(make: Make) -> None:
    server = make("x" * 10_000, "left", "right", "more")
    first = responded(server, input="start")
    left = responded(server, input="l", previous_response_id=first["id"])
    right = responded(server, input="r", previous_response_id=first["id"])
    for response in (first, left):
        server.core.responses.delete(LOCAL_CALLER, response["id"])
    responded(server, input="on", previous_response_id=right["id"])
    assert texts_of(server.inference.requests[-1]) == ["start", "x" * 10_000, "r", "right", "on"]


@pytest.mark.parametrize("length", rest_at_night((2, 40), always=(2,)))
def test_the_end_of_a_chain_costs_three_round_trips_whatever_its_length(make: Make, length: int) -> None:
    server = make(*["a"] * (length + 1))
    response = chained(server, length)
    with calls_of_store(server) as calls:
        responded(server, input="end", previous_response_id=response["id"], is_read=False)
    assert sequential(calls) == ["gather", "write", "write"]


@pytest.mark.parametrize("forks", rest_at_night((1, 30), always=(1,)))
def test_a_fork_costs_one_round_trip_more_whatever_their_number(make: Make, forks: int) -> None:
    script: list[Scripted] = ["a"] * (2 * forks + 3)
    server = make(*script)
    response = responded(server)
    for _ in range(forks):
        responded(server, previous_response_id=response["id"])
        response = responded(server, previous_response_id=response["id"])
    with calls_of_store(server) as calls:
        responded(server, previous_response_id=response["id"], is_read=False)
    assert sequential(calls) == ["gather", "write", "write"]
    with calls_of_store(server) as calls:
        responded(server, previous_response_id=response["id"], is_read=False)
    assert sequential(calls) == ["gather", "gather", "write", "write"]


def chained(server: Server, length: int) -> dict[str, Any]:
    response = responded(server)
    for _ in range(length - 1):
        response = responded(server, previous_response_id=response["id"])
    return response


def sequential(calls: Sequence[Any]) -> list[str]:
    return [each.verb for each in calls]
