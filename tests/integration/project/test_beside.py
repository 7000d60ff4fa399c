"""Two servers compared by the responses to a client: differences are found, and explained ones are not reported.

Covers: tests/beside
"""

import json
from dataclasses import replace

import httpx

from tests.beside.__main__ import PAGE
from tests.beside.reasons import Reason, reference, unexplained
from tests.beside.recording import Exchange, recorder
from tests.beside.shapes import Difference, differences, kind_of
from tests.fakes.models.openai_server import ModelServer

ROUTE = "GET /v1/agents/*"


def answered(body: object, status: int = 200, route: str = ROUTE) -> Exchange:
    return Exchange(route, status, json.dumps(body).encode())


def streamed(*events: object) -> Exchange:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return Exchange(ROUTE, 200, body, is_stream=True)


def step(event_type: str, **more: object) -> dict[str, object]:
    return {"event": {"payload": {"event_type": event_type, "step_type": "inference", **more}}}


def found(their: Exchange, our: Exchange) -> list[tuple[str, str, str]]:
    return [(one.what, one.theirs, one.ours) for one in differences([their], [our])]


def test_contents_do_not_differ_but_statuses_and_types_do() -> None:
    assert found(answered({"a": 1, "b": [{"c": "x"}]}), answered({"a": 2, "b": [{"c": "y"}, {"c": "z"}]})) == []
    assert found(answered({"a": 1}), answered({"a": None, "b": "x"})) == [
        ("field a", "number", "null"),
        ("field b", "absent", "text"),
    ]
    assert found(answered({}, 200), answered({}, 404)) == [("status", "200", "404")]


def test_a_missing_part_is_one_difference_with_all_it_contains() -> None:
    assert found(answered({"a": {"b": {"c": 1}}}), answered({})) == [("field a", "object", "absent")]
    assert found(answered({"a": [{"b": 1}]}), answered({"a": None})) == [("field a", "list", "null")]


def test_the_order_of_kinds_of_events_differs_and_their_number_does_not() -> None:
    begin, text = step("step_start"), step("step_progress", delta={"type": "text", "text": "x"})
    assert kind_of(text) == "step_progress inference text"
    assert found(streamed(begin, text, text), streamed(begin, text)) == []
    kinds = ("step_start inference", "step_progress inference text")
    assert found(streamed(begin, text), streamed(text, begin)) == [
        ("events", " · ".join(kinds), " · ".join(kinds[::-1]))
    ]


def test_a_request_that_only_one_client_makes_is_a_difference() -> None:
    (one,) = differences([answered({}), answered({}, route="DELETE /x")], [answered({})])
    assert one == Difference("DELETE /x", "the next request", "made", "not made")


def test_a_reason_explains_only_what_all_its_patterns_match() -> None:
    one = Difference(ROUTE, "status", "400", "404", "unknown_things")
    reason = Reason("unknown", "400", "404", "true", what="status", ours="404", row="unknown_.*")
    others = [replace(one, what="events"), replace(one, ours="4040"), replace(one, row="an unknown_thing")]
    assert list(unexplained([one, *others], [reason])) == others


def test_the_recorder_forwards_and_records_the_exchange() -> None:
    with ModelServer() as model, recorder(model.url.removesuffix("/v1")) as recording:
        body = {"model": "words-2", "messages": [{"role": "user", "content": "x"}], "stream": True}
        answer = httpx.post(f"{recording.url}/v1/chat/completions", json=body)
        assert answer.text.endswith("data: [DONE]\n\n")
        listing, _ = httpx.get(f"{recording.url}/v1/models"), httpx.get(f"{recording.url}/v1/none")
        chat, models, none = recording.taken()
    assert (chat.route, chat.status, chat.is_stream) == ("POST /v1/chat/completions", 200, True)
    assert chat.events[-1] == "[DONE]"
    assert models.parsed == listing.json()
    assert (none.status, recording.taken()) == (404, [])


def test_the_reference_has_the_reasons() -> None:
    assert PAGE.read_text() == reference(), "python -m tests.beside --write"
