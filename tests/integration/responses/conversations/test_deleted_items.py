"""Items deleted from conversations over both stores: not listed, not sent to the model, and no call without its answer.

Covers: domain/responses/removal, services/responses/conversations, dialects/openai/responses/conversation_items
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply
from tests.support.engine.conversations import add, conversation, delete_item, item, items, text_in
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Held, Server
from tests.support.engine.responses import begun, read, responded
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import Forbidden, NotFound, TurnRunning
from turnstone.domain.models.requests import ReasoningChunk, TextChunk, call_pieces
from turnstone.domain.responses.addresses import conversation_id, session_of
from turnstone.domain.sessions.context import entry_of
from turnstone.domain.tools.tools import ToolDef, ToolResponse, call_from_json

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
CALLS = [call_from_json("c1", "add", '{"a": 1}'), call_from_json("c2", "add", '{"a": "secret"}')]


def output(call_id: str, text: str) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def sent(server: Server) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in server.inference.requests[-1].messages]


def stored(server: Server, named: str) -> bytes:
    """Return all that is stored of the conversation's session."""
    ref = session_of("local", named)
    shown = server.core.sessions.read(LOCAL_CALLER, ref, None)[1]
    segments = b"".join(segment.model_dump_json().encode() for segment in server.segments(ref))
    return b"".join(shown) + segments


def test_a_deleted_message_is_neither_listed_nor_stored_nor_sent(make: Make) -> None:
    script: list[Scripted] = ["first answer", "second answer", "third answer"]
    server = make(*script)
    named = conversation(server, items=[{"role": "user", "content": "secret one"}])
    made = [responded(server, input=f"question {text}", conversation=named) for text in ("secret two", "three")]
    before = items(server, named)
    for each in [each for each in before if "secret" in text_in(each) or "first" in text_in(each)]:
        delete_item(make(), named, each["id"])
        with pytest.raises(NotFound):
            item(server, named, each["id"])
        with pytest.raises(NotFound):
            delete_item(server, named, each["id"])
    assert items(server, named) == before[3:]
    assert b"secret" not in stored(server, named)
    assert b"first answer" not in stored(server, named)
    assert read(server, made[0]["id"])["output"] == []
    assert read(server, made[1]["id"]) == made[1]
    responded(server, input="on", conversation=named)
    assert sent(server) == [("user", "question three"), ("assistant", "second answer"), ("user", "on")]


def test_a_deleted_call_takes_its_answer_from_the_model(make: Make) -> None:
    server = make(ScriptedReply(("I ", "add."), tuple(CALLS)), "four", "more")
    named = conversation(server)
    called = responded(server, conversation=named, tools=[ADD])
    responded(server, input=[output("c1", "3"), output("c2", "4")], conversation=named, tools=[ADD])
    before = items(server, named)
    assert [each["type"] for each in before] == ["message"] * 2 + ["function_call"] * 2 + [
        *["function_call_output"] * 2,
        "message",
    ]
    delete_item(server, named, before[2]["id"])
    assert items(server, named) == [*before[:2], *before[3:]]
    assert read(server, called["id"])["output"] == [called["output"][0], called["output"][2]]
    responded(server, input="on", conversation=named)
    roles = [message.role for message in server.inference.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert [c.call_id for c in server.inference.requests[-1].messages[1].tool_calls] == ["c2"]


def test_a_deleted_answer_leaves_its_call_answered(make: Make) -> None:
    server = make(CALLS[0], "four", "more")
    named = conversation(server)
    responded(server, conversation=named, tools=[ADD])
    responded(server, input=[output("c1", "secret")], conversation=named, tools=[ADD])
    (answer,) = [each for each in items(server, named) if each["type"] == "function_call_output"]
    delete_item(server, named, answer["id"])
    responded(server, input="on", conversation=named)
    roles = [message.role for message in server.inference.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert b"secret" not in stored(server, named)


def test_items_between_reasoning_and_calls_keep_their_ids_and_cuts(make: Make) -> None:
    spoken = (ReasoningChunk("Hm, "), ReasoningChunk("so."), TextChunk("One "), TextChunk("two."))
    reply = ScriptedReply(calls=tuple(CALLS), chunks=(*spoken, *call_pieces(CALLS)))
    for gone in range(4):
        server = make(reply)
        named = conversation(server)
        responded(server, conversation=named, tools=[ADD])
        before = items(server, named)
        assert [each["type"] for each in before] == ["message", "reasoning", "message", *["function_call"] * 2]
        delete_item(server, named, before[1 + gone]["id"])
        assert items(server, named) == [*before[: 1 + gone], *before[2 + gone :]]
        (state,) = server.states(session_of("local", named))
        assert state.traces[0].cuts is not None


def test_items_of_turns_of_the_agents_api_are_deleted_too(make: Make) -> None:
    server = make(CALLS[1], "five", "more")
    ref = server.session(client_tools=(ToolDef(name="add"),))
    turn = server.paused(ref, "add them")
    named = conversation_id(ref)
    with pytest.raises(TurnRunning):
        delete_item(server, named, items(server, named)[0]["id"])
    server.drain(server.resume(turn, ToolResponse(call_id="c2", tool_name="add", content="secret five")))
    before = items(server, named)
    assert [each["type"] for each in before] == ["message", "function_call", "function_call_output", "message"]
    delete_item(server, named, before[2]["id"])
    delete_item(server, named, before[0]["id"])
    delete_item(server, named, before[1]["id"])
    assert items(server, named) == before[3:]
    assert b"secret" not in stored(server, named)
    server.drain(server.start(ref, "on"))
    assert sent(server) == [("assistant", "five"), ("user", "on")]


def test_an_item_far_back_in_a_long_conversation_is_deleted(make: Make) -> None:
    server = make(*(f"answer {number} " + "word " * 800 for number in range(8)), context_tokens=2_000)
    named = conversation(server)
    for number in range(8):
        responded(server, input=f"question {number}", conversation=named, is_read=False, truncation="auto")
    before = items(server, named)
    delete_item(server, named, before[3]["id"])
    assert items(server, named) == [*before[:3], *before[4:]]
    ref = session_of("local", named)
    log = [entry for segment in server.segments(ref) for entry in segment.entries]
    assert log == [entry_of(state) for state in server.states(ref)]


def test_only_its_owner_deletes_and_nothing_while_a_turn_runs(make: Make) -> None:
    held = Held("slow")
    server = make("one", held)
    named = conversation(server)
    responded(server, conversation=named)
    (first, _) = items(server, named)
    other = LOCAL_CALLER.model_copy(update={"principal": "other"})
    with pytest.raises(Forbidden):
        delete_item(server, named, first["id"], other)
    begun(server, conversation=named)
    held.wait()
    with pytest.raises(TurnRunning):
        delete_item(server, named, first["id"])
    held.open()
    server.settle()
    delete_item(server, named, first["id"])
    add(server, named, {"role": "user", "content": "after"})
    assert [text_in(each) for each in items(server, named)] == ["one", "hello", "slow", "after"]
