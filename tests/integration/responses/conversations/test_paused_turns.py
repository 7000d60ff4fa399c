"""Responses in conversations whose newest turn the Agents API paused: outputs of its calls continue it.

Covers: services/responses/responses, services/turns/opening
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import call, calls
from tests.support.engine.conversations import items
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from tests.support.engine.responses import queued, responded
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.addresses import conversation_id
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.turns import TurnStatus

SIGHT = ToolDef(name="look")
TWO_CALLS = calls(call("look", "c1"), call("look", "c2"))


def paused(server: Server) -> tuple[SessionRef, TurnRef]:
    ref = server.session(client_tools=(SIGHT,))
    return ref, server.paused(ref, "look around")


def answering(server: Server, ref: SessionRef, *answered: str, **more: Any) -> dict[str, Any]:
    """Return the response in the session to a request with outputs of these calls."""
    outputs = [{"type": "function_call_output", "call_id": each, "output": f"seen by {each}"} for each in answered]
    body = {"model": f"agent/{ref.agent_id}", "conversation": conversation_id(ref), "input": outputs, **more}
    return responded(server, **body)


def prompt_of(server: Server) -> list[tuple[str, Any]]:
    return [(message.role, message.content) for message in server.inference.requests[-1].messages]


def statuses(server: Server, ref: SessionRef) -> list[TurnStatus]:
    return [state.status for state in server.states(ref)]


def test_outputs_of_the_calls_of_a_paused_turn_continue_it(make: Make) -> None:
    server = make(call("look", "c1"), "a tree", "more")
    ref, turn = paused(server)
    response = answering(server, ref, "c1")
    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "a tree")
    assert prompt_of(server) == [("user", "look around"), ("assistant", ""), ("tool", "seen by c1")]
    assert statuses(server, ref) == [TurnStatus.COMPLETED] * 2
    first = server.states(ref)[0]
    assert [each.call_id for each in first.turn.output_message.tool_calls] == ["c1"]
    assert first.order == turn.turn_id
    shown = [each["type"] for each in items(server, conversation_id(ref))]
    assert shown == ["message", "function_call", "function_call_output", "message"]
    server.drain(server.start(ref, "and?"))
    assert prompt_of(server)[-3:] == [("tool", "seen by c1"), ("assistant", "a tree"), ("user", "and?")]


def test_calls_without_an_output_are_answered_for_the_model(make: Make) -> None:
    server = make(TWO_CALLS, "a tree")
    ref, _ = paused(server)
    assert answering(server, ref, "c2")["status"] == "completed"
    assert [role for role, _ in prompt_of(server)] == ["user", "assistant", "tool", "tool"]
    assert ("tool", "seen by c2") in prompt_of(server)


def test_a_background_response_continues_it_too(make: Make) -> None:
    server = make(call("look", "c1"), "a tree")
    ref, _ = paused(server)
    output = {"type": "function_call_output", "call_id": "c1", "output": "a shade"}
    begun = queued(server, model=f"agent/{ref.agent_id}", conversation=conversation_id(ref), input=[output])
    first, second = server.states(ref)
    assert (first.status, second.continues, second.order) == (TurnStatus.COMPLETED, True, begun.ref.turn_id)
    server.settle()


def test_an_output_of_no_pending_call_is_refused_and_the_turn_waits_on(make: Make) -> None:
    server = make(call("look", "c1"), "never said")
    ref, _ = paused(server)
    with pytest.raises(InvalidRequest, match="call_id: no call of the conversation"):
        answering(server, ref, "c9")
    assert statuses(server, ref) == [TurnStatus.AWAITING_INPUT]
    assert len(server.inference.requests) == 1


def test_outputs_after_25_hours_are_refused_for_a_paused_turn_and_accepted_for_a_response(make: Make) -> None:
    """A paused turn expires after a day; a response ends with its calls, so nothing of it waits."""
    server = make(call("look", "c1"), call("look", "c2"), "a tree", "hello")
    ref, turn = paused(server)
    called = responded(server, tools=[{"type": "function", "name": SIGHT.name}])
    server.clock.advance(25 * 3600)  # type: ignore[attr-defined]
    for status in (TurnStatus.AWAITING_INPUT, TurnStatus.EXPIRED):
        with pytest.raises(InvalidRequest, match="call_id: no call of the conversation") as refused:
            answering(server, ref, "c1")
        assert refused.value.location == ("input", 0, "call_id")
        assert statuses(server, ref) == [status]
        server.core.recovery.reconcile(turn)
    output = {"type": "function_call_output", "call_id": "c2", "output": "seen late"}
    late = responded(server, previous_response_id=called["id"], input=[output])
    assert (late["status"], prompt_of(server)[-1]) == ("completed", ("tool", "seen late"))
    responded(server, model=f"agent/{ref.agent_id}", conversation=conversation_id(ref), input="anything there?")
    assert statuses(server, ref) == [TurnStatus.EXPIRED, TurnStatus.COMPLETED]
    assert prompt_of(server)[-1] == ("user", "anything there?")


def test_a_message_of_the_user_replaces_the_paused_turn(make: Make) -> None:
    server = make(call("look", "c1"), "hello")
    ref, _ = paused(server)
    responded(server, model=f"agent/{ref.agent_id}", conversation=conversation_id(ref), input="never mind")
    assert statuses(server, ref) == [TurnStatus.CANCELLED, TurnStatus.COMPLETED]
