"""References to items of earlier responses and conversations, over both stores.

Covers: services/responses/references, dialects/openai/responses/references, store/responses/responses
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, attempt
from tests.support.engine.responses import read, responded
from turnstone.dialects.openai.responses.conversations import CreateConversation
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.responses.addresses import conversation_id, response_id

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}


def referring(server: Server, *ids: str, caller: Caller = LOCAL_CALLER, **body: Any) -> dict[str, Any]:
    """Return the response to a request that refers to the items."""
    items = [*({"type": "item_reference", "id": each} for each in ids), {"role": "user", "content": "and?"}]
    request = CreateResponse.model_validate({"model": "scripted", "input": items, **body})
    responses = server.core.responses
    new = request.to_new(responses.turns_seen_by(caller), responses.events_of)
    begun = responses.start(caller, new, attempt())
    server.drain(begun.broadcast)
    return read(server, response_id(begun.broadcast.ref), caller) if request.store else {}


def prompt_of(server: Server) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in server.inference.requests[-1].messages]


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_referenced_message_is_sent_to_the_model(make: Make, *, is_stored: bool) -> None:
    server = make("one", "two")
    first = responded(server, input=[{"role": "user", "content": "hello"}])
    referring(server, first["output"][0]["id"], store=is_stored)
    assert prompt_of(server) == [("assistant", "one"), ("user", "and?")]


def test_a_referenced_call_and_its_answer_are_sent_to_the_model(make: Make) -> None:
    server = make(call("add", "c1", a=1), "two", "three")
    called = responded(server, tools=[ADD])
    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    answered = responded(server, input=[output], previous_response_id=called["id"], tools=[ADD])
    answer = f"fco_{answered['output'][0]['id'].removeprefix('msg_')[:32]}8000"
    referring(server, called["output"][0]["id"], answer)
    assert [role for role, _ in prompt_of(server)] == ["assistant", "tool", "user"]


def test_a_reference_to_an_item_of_a_fork_is_found(make: Make) -> None:
    server = make("one", "two", "three", "four")
    first = responded(server)
    responded(server, previous_response_id=first["id"])
    fork = responded(server, previous_response_id=first["id"])
    referring(server, first["output"][0]["id"], previous_response_id=fork["id"])
    assert prompt_of(server)[-2:] == [("assistant", "one"), ("user", "and?")]


def test_an_item_that_was_added_to_the_conversation_is_found(make: Make) -> None:
    server = make("one")
    items = [{"role": "user", "content": "added"}]
    new = CreateConversation.model_validate({"items": items}).to_new()
    made = server.core.conversations.create(LOCAL_CALLER, new, attempt())
    named = conversation_id(made.ref)
    (turn,) = server.core.conversations.turns(LOCAL_CALLER, named, None, is_newest_first=True)
    referring(server, f"msg_{turn.ref.turn_id.replace('-', '')}8000", conversation=named)
    assert prompt_of(server) == [("user", "added"), ("user", "added"), ("user", "and?")]


def test_unknown_deleted_and_foreign_items_are_missing(make: Make) -> None:
    server = make("one", "two")
    first, second = responded(server), responded(server)
    item = first["output"][0]["id"]
    other = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    refer = partial(referring, server)
    server.core.responses.delete(LOCAL_CALLER, second["id"])
    for act in (
        partial(refer, "msg_1"),
        partial(refer, item[:-1] + "7"),
        partial(refer, second["output"][0]["id"]),
        partial(refer, item, caller=other),
    ):
        with pytest.raises(NotFound) as missing:
            act()
        assert missing.value.kind == "item"


def test_items_of_responses_that_expired_are_missing(make: Make) -> None:
    server = make("one", responses_ttl_s=3_600)
    item = responded(server)["output"][0]["id"]
    server.clock.advance(3_601)
    with pytest.raises(NotFound):
        referring(server, item)
