"""Limits of a response: tokens of its answers, calls of its tools, and the context of its model.

Covers: engine/loop_rules, engine/tool_plan, services/turns/opening, domain/sessions/context_budget
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls
from tests.support.engine.conversations import conversation
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server
from tests.support.engine.responses import calls_of_store, responded
from turnstone.domain.errors import HistoryTooLong
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.usage.usage import TokenUsage

ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
WORDS = "word " * 500


def spending(tokens: int, *tools: ToolCall, text: str = "") -> ScriptedReply:
    usage = TokenUsage(prompt_tokens=1, completion_tokens=tokens, total_tokens=tokens + 1)
    return ScriptedReply((text,) if text else (), tools, usage=usage)


def rolls(server: Server) -> str:
    """Return the model's name of an agent that rolls dice."""
    return f"agent/{server.agent(toolgroups=['dice'])}"


def roll(call_id: str) -> ToolCall:
    return call("roll", call_id, sides=6)


def answers_in(messages: Iterable[Any]) -> list[Any]:
    return [message.content for message in messages if isinstance(message, ToolResponseMessage)]


def test_the_tokens_of_a_response_are_those_of_all_its_answers(make: Make) -> None:
    server = make(spending(30, roll("a")), spending(15, text="Four."))
    response = responded(server, model=rolls(server), max_output_tokens=50)
    assert [request.sampling.max_tokens for request in server.inference.requests] == [50, 20]
    assert (response["status"], response["incomplete_details"]) == ("completed", None)
    assert response["max_output_tokens"] == 50
    assert response["usage"]["output_tokens"] == 45


def test_spent_tokens_end_a_response_before_its_tools_run(make: Make) -> None:
    server = make(spending(50, roll("a")))
    response = responded(server, model=rolls(server), max_output_tokens=50)
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [(item["type"], item["output"]) for item in response["output"]] == [("mcp_call", None)]
    assert len(server.inference.requests) == 1


def test_spent_tokens_leave_a_call_to_its_client(make: Make) -> None:
    server = make(spending(50, call("add", "a", a=1)), "One.")
    response = responded(server, tools=[ADD], max_output_tokens=50)
    assert [item["type"] for item in response["output"]] == ["function_call"]
    output = {"type": "function_call_output", "call_id": "a", "output": "1"}
    next_one = responded(server, input=[output], previous_response_id=response["id"], max_output_tokens=50)
    assert (next_one["status"], server.inference.requests[1].sampling.max_tokens) == ("completed", 50)


def test_calls_over_the_limit_are_answered_without_a_run(make: Make) -> None:
    server = make(calls(roll("a"), roll("b")), roll("c"), "Enough.")
    response = responded(server, model=rolls(server), max_tool_calls=1)
    over = "This call was not run: the limit of 1 tool calls is reached."
    assert answers_in(server.inference.requests[2].messages) == ["4", over, over]
    assert [item["error"] is None for item in response["output"][:-1]] == [True, False, False]
    assert (response["status"], response["max_tool_calls"]) == ("completed", 1)


def test_calls_of_the_client_have_no_limit(make: Make) -> None:
    server = make(calls(call("add", "a", a=1), call("add", "b", a=2)))
    response = responded(server, tools=[ADD], max_tool_calls=1)
    assert [item["call_id"] for item in response["output"]] == ["a", "b"]


def test_a_history_that_does_not_fit_is_refused_before_anything_is_stored(make: Make) -> None:
    server = make(*[WORDS] * 4, "Short.", context_tokens=2_000)
    conversation_id = conversation(server)
    newest = ""
    for number in range(4):
        newest = responded(server, input=str(number), conversation=conversation_id)["id"]
    for continued in ({"conversation": conversation_id}, {"previous_response_id": newest}):
        with calls_of_store(server) as made, pytest.raises(HistoryTooLong) as refused:
            responded(server, input="more", **continued)
        assert refused.value.location == ("input",)
        assert not any(each.operations for each in made)
    assert len(server.inference.requests) == 4
    trimmed = responded(server, input="more", conversation=conversation_id, truncation="auto")
    assert (trimmed["status"], trimmed["truncation"]) == ("completed", "auto")
    assert "0" not in [message.content for message in server.inference.requests[-1].messages]


def test_a_fork_of_a_conversation_with_cut_messages_is_refused_too(make: Make) -> None:
    server = make(*[WORDS] * 40, context_tokens=2_000)
    chain = [responded(server, input="0")["id"]]
    for number in range(1, 39):
        chain.append(responded(server, input=str(number), previous_response_id=chain[-1], truncation="auto")["id"])
    with pytest.raises(HistoryTooLong):
        responded(server, input="other", previous_response_id=chain[30])
    assert responded(server, input="other", previous_response_id=chain[0])["status"] == "completed"


def test_a_first_input_of_any_length_goes_to_the_model(make: Make) -> None:
    server = make("Yes.", context_tokens=500)
    assert responded(server, input=WORDS)["status"] == "completed"
