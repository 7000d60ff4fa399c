"""Responses over both stores: they continue each other, answer calls, are read in another process, and are deleted.

Covers: services/responses/responses, services/responses/fitting, store/responses/responses, store/keys/responses,
store/agents/implicit
"""

from __future__ import annotations

import pytest

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from tests.support.engine.responses import read, responded
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.responses.lists import ResponsesQuery
from turnstone.domain.tools.tools import call_from_json

CALL = call_from_json("c1", "add", '{"a": 1}')
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
USER = {"role": "user", "content": "hello"}


def test_a_response_continues_the_one_before_it(make: Make) -> None:
    server = make("one", "two")
    first = responded(server, input="a secret word")
    second = responded(server, input="which?", previous_response_id=first["id"])
    assert [item["content"][0]["text"] for item in (*first["output"], *second["output"])] == ["one", "two"]
    assert [m.content for m in server.inference.requests[1].messages] == ["a secret word", "one", "which?"]


def test_a_turn_ends_at_function_calls_and_the_next_one_answers_them(make: Make) -> None:
    server = make(CALL, "three")
    called = responded(server, tools=[ADD])
    (item,) = called["output"]
    assert (called["status"], item["type"], item["call_id"], item["arguments"]) == (
        *("completed", "function_call", "c1"),
        '{"a": 1}',
    )
    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    answered = responded(server, input=[output], previous_response_id=called["id"], tools=[ADD])
    assert answered["output"][0]["content"][0]["text"] == "three"
    assert [message.role for message in server.inference.requests[1].messages] == ["user", "assistant", "tool"]


def test_an_answer_without_its_call_is_refused(make: Make) -> None:
    server = make("one")
    first = responded(server)
    output = {"type": "function_call_output", "call_id": "none", "output": "3"}
    for previous in (None, first["id"]):
        with pytest.raises(InvalidRequest) as refused:
            responded(server, input=[USER, output], previous_response_id=previous)
        assert refused.value.location == ("input", 1, "call_id")


def test_a_stateless_client_sends_calls_and_answers_together(make: Make) -> None:
    server = make("three")
    call = {"type": "function_call", "call_id": "x", "name": "add", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "x", "output": "3"}
    response = responded(server, input=[USER, call, output], tools=[ADD])
    assert response["status"] == "completed"
    assert [message.role for message in server.inference.requests[0].messages] == ["user", "assistant", "tool"]


def test_a_response_is_the_same_in_another_process(make: Make) -> None:
    server = make(ScriptedReply(("It ", "is ", "so.")))
    response = responded(server, instructions="Be kind.", metadata={"a": "b"})
    assert read(server, response["id"]) == response
    assert (response["instructions"], response["metadata"]) == ("Be kind.", {"a": "b"})


def test_an_agent_answers_under_its_name(make: Make) -> None:
    server = make("yes")
    agent_id = server.agent(instructions="Be brief.")
    response = responded(server, model=f"agent/{agent_id}")
    assert (response["model"], response["status"]) == (f"agent/{agent_id}", "completed")
    assert server.inference.requests[0].messages[0].content == "Be brief."
    with pytest.raises(NotFound):
        responded(server, model="agent/none")


def test_a_deleted_response_is_missing_everywhere_and_later_ones_stay(make: Make) -> None:
    server = make("one", "two", "three")
    first = responded(server)
    second = responded(server, previous_response_id=first["id"])
    server.core.responses.delete(LOCAL_CALLER, first["id"])
    for act in (
        lambda: read(server, first["id"]),
        lambda: responded(server, previous_response_id=first["id"]),
        lambda: server.core.responses.delete(LOCAL_CALLER, first["id"]),
    ):
        with pytest.raises(NotFound) as missing:
            act()
        assert missing.value.kind == "response"
    assert listed(server) == [second["id"]]
    third = responded(server, previous_response_id=second["id"])
    assert [m.content for m in server.inference.requests[-1].messages][:2] == ["hello", "one"]
    for response in (second, third):
        server.core.responses.delete(LOCAL_CALLER, response["id"])
    assert listed(server) == []
    assert [job.kind for job in server.jobs.sent] == ["clean_session"]


def test_other_tenants_find_no_response(make: Make) -> None:
    server = make("one")
    response = responded(server)
    stranger = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    for act in (read, lambda s, i, c: s.core.responses.delete(c, i)):
        with pytest.raises(NotFound):
            act(server, response["id"], stranger)
    assert read(server, response["id"]) == response


def listed(server: Server) -> list[str]:
    _, stored = server.core.responses.list(LOCAL_CALLER, ResponsesQuery(limit=10))
    return [ShownResponse(each.ref, each.sent).begun()["id"] for each in stored]
