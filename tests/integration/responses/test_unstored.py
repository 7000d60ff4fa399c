"""Responses with store=false over both stores: nothing of them is written but the tokens that they spent.

Covers: services/responses/unstored, store/responses/unstored, services/responses/responses, services/tools/tool_answers
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from pydantic_core import from_json

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import DICE, Make
from tests.support.engine.harness import Held, Server, attempt
from tests.support.engine.responses import calls_of_store, live, read, responded, started
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import encoder_of
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import DayLimitReached, ModelError, NotFound, TurnRunning
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult
from turnstone.domain.turns.events import TurnCompleted, TurnFailed
from turnstone.domain.usage.usage_report import UsageQuery

SECRET = "the-secret-word"
PNG = b"\x89PNG\r\n\x1a\n" + b"image" * 9
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
TOOLS: dict[str, Any] = {
    **DICE,
    "builtin::code_interpreter": {
        "code_interpreter": lambda arguments: ToolResult(SECRET * 9, files=(ProducedFile("a.png", "image/png", PNG),))
    },
    "builtin::photogen": {
        "photogen": lambda arguments: ToolResult("Made it.", files=(ProducedFile("a.png", "image/png", PNG),))
    },
}


def made(make: Make, *script: Scripted, **settings: Any) -> Server:
    server = make(*script, **settings)
    server.tools.offer(TOOLS)
    return server


def whole(server: Server, **body: Any) -> dict[str, Any]:
    """Return the unstored response as its client gets it."""
    begun = started(server, store=False, **body)
    events = server.drain(begun.broadcast)
    shown = ShownResponse(begun.broadcast.ref, begun.sent, server.core.responses.image_at(begun.broadcast.ref))
    last = events[-1]
    assert isinstance(last, TurnCompleted | TurnFailed)
    assert last.state is not None
    response: dict[str, Any] = from_json(encoder_of(shown, server.core.responses.events_of)(last.state))
    return response


def test_nothing_but_its_usage_is_written_while_its_tools_run(make: Make) -> None:
    server = made(make, call("code_interpreter", "c", code=SECRET), f"{SECRET}!")
    with calls_of_store(server) as calls:
        response = whole(server, input=SECRET, tools=[{"type": "code_interpreter", "container": {"type": "auto"}}])
    assert (response["status"], response["store"]) == ("completed", False)
    assert [item["type"] for item in response["output"]] == ["code_interpreter_call", "message"]
    written = [operation for each in calls for operation in each.operations]
    assert [("usage:" in put.key.pk, SECRET.encode() in put.body) for put in written] == [(True, False)]
    with pytest.raises(NotFound):
        read(server, response["id"])
    with pytest.raises(NotFound):
        responded(server, previous_response_id=response["id"])


def test_its_stream_is_that_of_a_stored_response(make: Make) -> None:
    server = made(make, "It is so.", "It is so.")
    streams = [live(started(server, store=is_stored)) for is_stored in (True, False)]
    assert [event["type"] for event in streams[0]] == [event["type"] for event in streams[1]]
    assert [event["sequence_number"] for event in streams[1]] == list(range(len(streams[1])))
    assert streams[1][-1]["response"]["output"][0]["content"][0]["text"] == "It is so."


def test_it_reads_the_response_before_it_and_leaves_that_as_it_is(make: Make) -> None:
    server = made(make, "one", "two", "three")
    first = responded(server, input="hello")
    with calls_of_store(server) as calls:
        whole(server, input="and?", previous_response_id=first["id"])
    assert [message.content for message in server.inference.requests[1].messages] == ["hello", "one", "and?"]
    assert len([operation for each in calls for operation in each.operations]) == 1
    responded(server, input="next", previous_response_id=first["id"])
    assert [message.content for message in server.inference.requests[2].messages] == ["hello", "one", "next"]


def test_it_answers_calls_of_the_response_before_it(make: Make) -> None:
    server = made(make, call("add", "c1", a=1), "two")
    called = responded(server, tools=[ADD])
    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    response = whole(server, input=[output], previous_response_id=called["id"], tools=[ADD])
    assert response["output"][0]["content"][0]["text"] == "two"


def test_a_running_response_can_be_continued_by_neither(make: Make) -> None:
    held = Held("slow")
    server = made(make, held)
    begun = started(server)
    held.wait()
    with pytest.raises(TurnRunning):
        started(server, store=False, previous_response_id=response_id(begun.broadcast.ref))
    held.open()
    server.drain(begun.broadcast)


def test_strangers_continue_nothing_without_storing_either(make: Make) -> None:
    server = made(make, "one")
    first = responded(server)
    other = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    with pytest.raises(NotFound):
        started(server, caller=other, store=False, previous_response_id=first["id"])


def test_files_of_its_tools_are_in_their_addresses(make: Make) -> None:
    server = made(make, call("code_interpreter", "c", code="1"), call("photogen", "p", query="a bird"), "Done.")
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "image_generation"}]
    code, image, _ = whole(server, tools=tools, include=["code_interpreter_call.outputs"])["output"]
    encoded = b64encode(PNG).decode()
    assert code["outputs"][1] == {"type": "image", "url": f"data:image/png;base64,{encoded}"}
    assert image["result"] == encoded


def test_an_agent_answers_without_a_session(make: Make) -> None:
    server = made(make, "yes")
    agent_id = server.agent(instructions="Be brief.")
    assert whole(server, model=f"agent/{agent_id}")["status"] == "completed"
    assert server.inference.requests[0].messages[0].content == "Be brief."
    assert list(server.core.sessions.list(LOCAL_CALLER, agent_id, ListQuery(limit=9))) == []


def test_its_tokens_count_for_the_day(make: Make) -> None:
    server = made(make, "one", "two", max_day_tokens=1)
    whole(server)
    report = server.core.usage.report(LOCAL_CALLER, UsageQuery())
    assert report.total.total_tokens > 0
    server.clock.advance(11)
    with pytest.raises(DayLimitReached):
        started(server, store=False)


def test_a_failure_is_the_end_of_the_response(make: Make) -> None:
    server = made(make, ModelError("out of order"))
    response = whole(server)
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")


def test_sent_again_it_runs_again(make: Make) -> None:
    server, first = made(make, "one", "two"), attempt(key="1" * 32)
    refs = [started(server, by, store=False).broadcast for by in (first, first.model_copy(update={"is_retry": True}))]
    for broadcast in refs:
        server.drain(broadcast)
    assert len({broadcast.ref for broadcast in refs}) == 2
    assert len(server.inference.requests) == 2


def test_it_has_no_session(make: Make) -> None:
    server = made(make, "one")
    ref: SessionRef = started(server, store=False).broadcast.ref.session
    server.settle()
    assert server.core.turn_store.lock_of(ref) is None


def test_its_run_ends_as_its_client_leaves_and_its_finished_steps_count(make: Make) -> None:
    held = Held("4")
    server = made(make, call("roll", "c"), "never said", max_day_tokens=1)
    server.tools.offer({"dice": {"roll": held}})
    begun = started(server, store=False, model=f"agent/{server.agent(toolgroups=['dice'])}")
    held.wait()
    assert begun.broadcast.abandon is not None
    begun.broadcast.abandon(begun.broadcast.ref)
    held.open()
    last = server.drain(begun.broadcast)[-1]
    assert isinstance(last, TurnFailed)
    assert last.status == "cancelled"
    assert len(server.inference.requests) == 1
    server.clock.advance(11)
    with pytest.raises(DayLimitReached):
        started(server, store=False)
