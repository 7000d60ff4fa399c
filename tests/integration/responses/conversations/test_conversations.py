"""Conversations over both stores: created, read, changed, continued by responses, filled without a run, deleted.

Covers: services/responses/conversations, services/responses/answering, store/responses/conversations,
store/keys/responses, domain/responses/conversations, dialects/openai/responses/conversation_items
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.fakes.models.scripted import Scripted
from tests.support.engine.conversations import add, conversation, item, items, read_conversation, text_in
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server, attempt
from tests.support.engine.responses import begun, read, responded
from turnstone.dialects.openai.responses.conversations import CreateConversation
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.addresses import conversation_id, session_of
from turnstone.domain.tools.tools import call_from_json

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
CALL = call_from_json("c1", "add", '{"a": 1}')
HELLO = {"role": "user", "content": "hello"}


def message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def sent(server: Server, index: int = -1) -> list[Any]:
    return [message.content for message in server.inference.requests[index].messages]


def texts(shown: list[dict[str, Any]]) -> list[str]:
    return [text_in(each) for each in shown]


def test_a_conversation_has_metadata_which_another_process_reads_and_changes(make: Make) -> None:
    server, other = make(), make()
    named = conversation(server, metadata={"topic": "birds"})
    shown = read_conversation(other, named)
    assert (shown["id"], shown["object"], shown["metadata"]) == (named, "conversation", {"topic": "birds"})
    other.core.conversations.update(LOCAL_CALLER, named, {"topic": "terns"})
    assert read_conversation(server, named) == {**shown, "metadata": {"topic": "terns"}}
    server.core.conversations.update(LOCAL_CALLER, named, {})
    assert read_conversation(other, named)["metadata"] == {}


def test_responses_read_their_conversation_and_append_to_it(make: Make) -> None:
    server = make("one", "two")
    named = conversation(server, items=[message("user", "a secret word"), message("assistant", "noted")])
    first = responded(server, input="hello", conversation=named)
    assert first["conversation"] == {"id": named}
    responded(server, input="more", conversation={"id": named})
    assert sent(server) == ["a secret word", "noted", "hello", "one", "more"]
    assert texts(items(server, named)) == ["a secret word", "noted", "hello", "one", "more", "two"]
    assert [each["role"] for each in items(server, named)] == ["user", "assistant"] * 3


def test_items_are_listed_in_pages_of_either_order_and_each_is_read_by_its_id(make: Make) -> None:
    script: list[Scripted] = [f"answer {number}" for number in range(30)]
    server = make(*script)
    named = conversation(server)
    for number in range(30):
        responded(server, input=f"question {number}", conversation=named, is_read=False)
    whole = items(make(), named)
    assert texts(whole) == [f"{kind} {number}" for number in range(30) for kind in ("question", "answer")]
    assert len({each["id"] for each in whole}) == 60
    for is_newest_first in (False, True):
        paged: list[dict[str, Any]] = []
        while page := items(
            server, named, limit=7, is_newest_first=is_newest_first, after=paged[-1]["id"] if paged else None
        ):
            paged += page
        assert paged == (whole[::-1] if is_newest_first else whole)
    assert [item(server, named, each["id"]) for each in whole[:3]] == whole[:3]
    with pytest.raises(InvalidRequest):
        items(server, named, after="msg_" + "0" * 36)


def test_items_of_a_response_have_the_ids_of_its_output(make: Make) -> None:
    server = make(CALL, "three")
    named = conversation(server)
    called = responded(server, conversation=named, tools=[ADD])
    output = {"type": "function_call_output", "call_id": "c1", "output": "3", "id": "fco_mine"}
    answered = responded(server, input=[output], conversation=named, tools=[ADD])
    kinds = [each["type"] for each in items(server, named)]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert items(server, named)[1::2] == [called["output"][0], answered["output"][0]]
    assert item(server, named, items(server, named)[2]["id"])["output"] == "3"
    with pytest.raises(NotFound):
        item(server, named, "fco_mine")


def test_calls_and_answers_are_added_without_a_run_and_the_model_gets_them(make: Make) -> None:
    server = make("done")
    named = conversation(server)
    made = {"type": "function_call", "call_id": "x", "name": "add", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "x", "output": "3"}
    with pytest.raises(InvalidRequest) as refused:
        add(server, named, HELLO, output)
    assert refused.value.location == ("items", 1, "call_id")
    add(server, named, HELLO, made)
    (shown,) = add(server, named, output)
    assert (shown["type"], shown["call_id"], shown["output"]) == ("function_call_output", "x", "3")
    responded(server, input="so?", conversation=named)
    assert [m.role for m in server.inference.requests[0].messages] == ["user", "assistant", "tool", "user"]
    with pytest.raises(InvalidRequest) as refused:
        responded(server, input=[output], conversation=named)
    assert refused.value.location == ("input", 0, "call_id")


def test_nothing_is_added_while_a_turn_runs(make: Make) -> None:
    held = Held("slow")
    server = make(held)
    named = conversation(server)
    begun(server, conversation=named)
    held.wait()
    with pytest.raises(TurnRunning):
        add(server, named, HELLO)
    with pytest.raises(TurnRunning):
        responded(server, conversation=named)
    held.open()
    server.settle()
    assert texts(add(server, named, message("user", "now"))) == ["now"]


def test_items_and_conversations_sent_again_are_stored_once(make: Make) -> None:
    server = make()
    key = attempt(key="0" * 32)
    named = conversation(server, key, items=[HELLO])
    assert conversation(make(), key, items=[HELLO]) == named
    first = attempt()
    made = add(server, named, HELLO, by=first)
    assert add(make(), named, HELLO, by=first.model_copy(update={"is_retry": True})) == made
    keyed = attempt(key="1" * 32)
    assert add(server, named, HELLO, by=keyed) == add(make(), named, HELLO, by=keyed)
    assert len(items(server, named)) == 3


def test_a_conversation_of_an_agent_is_a_session_of_it(make: Make) -> None:
    server = make("yes", "again")
    agent_id = server.agent(instructions="Be brief.")
    named = conversation(server, agent=agent_id)
    ref = session_of("local", named)
    assert ref.agent_id == agent_id
    responded(server, model=f"agent/{agent_id}", conversation=named)
    server.drain(server.start(ref, "and you?"))
    assert sent(server) == ["Be brief.", "hello", "yes", "and you?"]
    assert texts(items(server, named)) == ["hello", "yes", "and you?", "again"]
    with pytest.raises(InvalidRequest) as refused:
        responded(server, conversation=named)
    assert refused.value.location == ("model",)
    with pytest.raises(NotFound):
        conversation(server, agent="none")


def test_any_session_is_a_conversation(make: Make) -> None:
    server = make("hi", "more")
    ref = server.session()
    server.drain(server.start(ref, "hello"))
    named = conversation_id(ref)
    assert read_conversation(server, named)["metadata"] == {}
    assert texts(items(server, named)) == ["hello", "hi"]
    responded(server, model=f"agent/{ref.agent_id}", input="on", conversation=named)
    assert texts(items(server, named)) == ["hello", "hi", "on", "more"]


def test_a_session_is_found_as_a_conversation_and_a_conversation_shows_its_session(make: Make) -> None:
    server = make("one", "two")
    ref = server.session()
    server.drain(server.start(ref, "hello"))
    named = conversation(server, agent=ref.agent_id, session=ref.session_id)
    shown = read_conversation(make(), named)
    assert (shown["agent_id"], shown["session_id"]) == (ref.agent_id, ref.session_id)
    assert texts(items(server, named)) == ["hello", "one"]
    assert conversation(server, agent=ref.agent_id, session=ref.session_id) == named
    assert read_conversation(server, conversation(server))["agent_id"] == "responses"


@pytest.mark.parametrize("session", ["0" * 36, "a session", "x" * 300])
def test_a_missing_session_is_named(make: Make, session: str) -> None:
    server = make()
    agent_id = server.agent()
    with pytest.raises(NotFound) as missing:
        conversation(server, agent=agent_id, session=session)
    assert missing.value.kind == "session"
    with pytest.raises(NotFound):
        conversation(server, agent="no agent", session=session)


@pytest.mark.parametrize(
    ("field", "more"),
    [("session", {}), ("items", {"agent": "a", "items": [HELLO]}), ("metadata", {"agent": "a", "metadata": {}})],
)
def test_a_session_that_exists_is_named_with_its_agent_alone(field: str, more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{field}: "):
        CreateConversation.model_validate({"session": "s", **more})


def test_shields_of_an_agent_judge_messages_in_its_conversations(make: Make) -> None:
    server = make()
    named = conversation(server, agent=server.agent(input_shields=["strict"]))
    with pytest.raises(InvalidRequest):
        add(server, named, HELLO)


def test_a_deleted_response_leaves_its_items_and_a_conversation_stays_without_responses(make: Make) -> None:
    server = make("one", "two")
    named = conversation(server)
    response = responded(server, input=[{**HELLO, "id": "mine"}], conversation=named)
    before = items(server, named)
    server.core.responses.delete(LOCAL_CALLER, response["id"])
    assert items(server, named) == before
    assert server.jobs.sent == []
    with pytest.raises(NotFound):
        read(server, response["id"])
    responded(server, input="on", conversation=named)
    assert sent(server) == ["hello", "one", "on"]


def test_a_response_of_a_conversation_is_continued_beside_it(make: Make) -> None:
    server = make("one", "aside", "two")
    named = conversation(server)
    first = responded(server, conversation=named)
    aside = responded(server, input="aside?", previous_response_id=first["id"])
    assert "conversation" not in aside
    assert texts(items(server, named)) == ["hello", "one"]
    responded(server, input="on", conversation=named)
    assert sent(server) == ["hello", "one", "on"]


def test_a_deleted_conversation_is_missing_with_all_that_was_in_it(make: Make) -> None:
    server = make("one")
    named = conversation(server)
    response = responded(server, conversation=named)
    server.core.conversations.delete(LOCAL_CALLER, named)
    for act in (
        lambda: read_conversation(server, named),
        lambda: items(server, named),
        lambda: add(server, named, HELLO),
        lambda: responded(server, conversation=named),
        lambda: server.core.conversations.update(LOCAL_CALLER, named, {}),
        lambda: server.core.conversations.delete(LOCAL_CALLER, named),
    ):
        with pytest.raises(NotFound) as missing:
            act()
        assert (missing.value.kind, missing.value.identifier) == ("conversation", named)
    with pytest.raises(NotFound):
        read(server, response["id"])


def test_other_tenants_and_other_ids_find_no_conversation(make: Make) -> None:
    server = make()
    named = conversation(server, items=[HELLO])
    stranger = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    for text, caller in ((named, stranger), ("conv_none", LOCAL_CALLER), (_absent(named), LOCAL_CALLER)):
        for act in (read_conversation, items):
            with pytest.raises(NotFound) as missing:
                act(server, text, caller)
            assert missing.value.kind == "conversation"


def _absent(named: str) -> str:
    ref = session_of("local", named)
    return conversation_id(SessionRef(tenant="local", agent_id=ref.agent_id, session_id="none"))
