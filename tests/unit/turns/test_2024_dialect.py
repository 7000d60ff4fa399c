"""Requests and streams of September 2024 carry the same values as today's.

Covers: dialects/llama_stack_2024, functions/llama_stack_2024
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from functions.llama_stack_2024.create_turn import create_turn
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.dialects.llama_stack_2024.agent_requests import CreateAgent2024
from turnstone.dialects.llama_stack_2024.replies import turn_wire, wire_2024
from turnstone.dialects.llama_stack_2024.stream import TurnStream2024
from turnstone.dialects.llama_stack_2024.turn_requests import CreateTurn2024
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig, Greedy, Strategy, TopK, TopP
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import (
    Numbered,
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    step_completed,
    turn_awaits_input,
    turn_completed,
)
from turnstone.domain.turns.turns import (
    Failure,
    MemoryRetrievalStep,
    Step,
    ToolExecutionStep,
    Turn,
    TurnState,
    silent_output,
)
from turnstone.http.replies import TurnReply
from turnstone.http.request import Request
from turnstone.http.streams.turn_answers import outcome
from turnstone.services.streams.broadcast import TurnBroadcast

AT = datetime(2026, 1, 1, tzinfo=UTC)
CALL = ToolCall(call_id="c", tool_name="look", arguments={})
ANSWER = ToolResponse(call_id="c", tool_name="look", content="seen")
RAN = ToolExecutionStep(turn_id="t", step_id="s", tool_calls=(CALL,), tool_responses=(ANSWER,))
RETRIEVED = MemoryRetrievalStep(turn_id="t", step_id="s", vector_db_ids="bank-1, bank-2", inserted_context="x")


def turn_of(*steps: Step) -> Turn:
    return Turn(
        turn_id="t", session_id="s", input_messages=(), steps=steps, output_message=silent_output(), started_at=AT
    )


def state_of(*steps: Step) -> TurnState:
    return TurnState(turn=turn_of(*steps), order="t")


def payloads_of(*events: TurnEvent) -> list[dict[str, Any]]:
    """Return the payloads of a stream of these events."""
    stream = TurnStream2024()
    lines = b"".join(stream.encode(Numbered(event, None)) for event in events).decode().split("\n\n")[:-1]
    return [json.loads(line.removeprefix("data: "))["event"]["payload"] for line in lines]


def config_of(sampling: dict[str, Any]) -> AgentConfig:
    agent_config = {"model": "m", "instructions": "", "sampling_params": sampling}
    return CreateAgent2024.model_validate({"agent_config": agent_config}).agent_config.to_config()


@pytest.mark.parametrize(
    ("sampling", "strategy"),
    [
        ({"strategy": "greedy", "temperature": 1.0, "top_p": 0.9}, Greedy()),
        ({"strategy": "top_p", "temperature": 0.7, "top_p": 0.9}, TopP(temperature=0.7, top_p=0.9)),
        ({"strategy": "top_p"}, TopP(temperature=None, top_p=0.95)),
        ({"strategy": "top_p", "temperature": 0.0}, Greedy()),
        ({"strategy": "top_k", "top_k": 5}, TopK(top_k=5)),
        ({"strategy": {"type": "top_k", "top_k": 5}}, TopK(top_k=5)),
        ({}, Greedy()),
    ],
)
def test_a_strategy_given_by_name_is_that_strategy(sampling: dict[str, Any], strategy: Strategy) -> None:
    config = config_of({**sampling, "max_tokens": 9, "repetition_penalty": 1.5})
    assert config.sampling_params.strategy == strategy
    assert (config.sampling_params.max_tokens, config.sampling_params.repetition_penalty) == (9, 1.5)
    assert type(config) is AgentConfig
    AgentConfig.model_validate_json(config.model_dump_json())


@pytest.mark.parametrize(
    "sampling",
    [
        {"strategy": "top_k"},
        {"strategy": "top_k", "top_k": 0},
        {"strategy": "best"},
        {"strategy": "top_p", "temperature": -1},
    ],
)
def test_an_unusable_strategy_is_refused(sampling: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config_of(sampling)


def turn_request(**fields: Any) -> CreateTurn2024:
    return CreateTurn2024.model_validate({"agent_id": "a", "session_id": "s", **fields})


def test_a_tool_answers_under_the_name_its_role_had() -> None:
    answer = {"role": "ipython", "call_id": "c", "tool_name": "look", "content": "seen"}
    new = turn_request(messages=[answer, {"role": "user", "content": "so?"}]).to_new_turn()
    assert new.messages == (ToolResponseMessage(call_id="c", content="seen"), UserMessage(content="so?"))


def test_attached_texts_go_to_memory_and_images_to_the_model() -> None:
    given = [
        {"content": "x", "mime_type": "text/markdown"},
        {"content": {"type": "image", "image": {"data": "aGk="}}, "mime_type": "image/png"},
        {"content": {"uri": "https://example.com/a.txt"}, "mime_type": "text/plain"},
    ]
    new = turn_request(messages=[{"role": "user", "content": "read this"}], attachments=given).to_new_turn()
    assert [(each.content, each.mime_type, each.address) for each in new.attachments] == [
        ("x", "text/markdown", None),
        ("", "text/plain", "https://example.com/a.txt"),
    ]
    assert [document.mime_type for document in new.documents] == ["image/png"]
    assert turn_request(messages=[{"role": "user", "content": "hi"}], attachments=[]).to_new_turn().attachments == ()


@pytest.mark.parametrize(
    ("message", "mime_type", "location"),
    [
        ({"role": "user", "content": "hi"}, "application/zip", ("attachments", 0, "mime_type")),
        ({"role": "tool", "call_id": "c", "content": "seen"}, "text/plain", ("attachments",)),
    ],
)
def test_attachments_that_no_memory_can_hold_are_refused_by_their_field(
    message: dict[str, str], mime_type: str, location: tuple[str | int, ...]
) -> None:
    attached = turn_request(messages=[message], attachments=[{"content": "x", "mime_type": mime_type}])
    with pytest.raises(InvalidRequest) as refused:
        attached.to_new_turn()
    assert refused.value.location == location


def test_text_of_a_model_is_sent_in_every_field() -> None:
    event = StepProgressed(step_type="inference", step_id="s", delta=TextDelta(text="hi"))
    (payload,) = payloads_of(event)
    assert payload == {
        **json.loads(event.model_dump_json()),
        "model_response_text_delta": "hi",
        "text_delta": "hi",
        "tool_call_delta": None,
        "tool_response_text_delta": None,
    }


@pytest.mark.parametrize(
    ("status", "then"),
    [("started", "started"), ("in_progress", "in_progress"), ("failed", "failure"), ("succeeded", "success")],
)
def test_a_call_is_sent_in_both_fields(status: Any, then: str) -> None:
    delta = ToolCallDelta(tool_call=CALL, parse_status=status)
    (payload,) = payloads_of(StepProgressed(step_type="inference", step_id="s", delta=delta))
    assert (payload["delta"]["parse_status"], payload["tool_call_delta"]["parse_status"]) == (status, then)
    assert payload["tool_call_delta"]["content"] == payload["delta"]["tool_call"]
    assert payload["model_response_text_delta"] is None


def test_the_answer_of_a_server_tool_is_sent_before_its_step_is_complete() -> None:
    started = StepStarted(step_type="tool_execution", step_id="s")
    kinds = [(p["event_type"], p.get("tool_response_text_delta")) for p in payloads_of(started, step_completed(RAN))]
    assert kinds == [("step_start", None), ("step_progress", "seen"), ("step_complete", None)]


def test_the_answer_of_a_client_tool_is_not_sent_back() -> None:
    assert [payload["event_type"] for payload in payloads_of(step_completed(RAN))] == ["step_complete"]


def test_a_turn_that_waits_for_its_client_is_sent_as_complete() -> None:
    assert payloads_of(turn_awaits_input(state_of())) == payloads_of(turn_completed(state_of()))
    assert payloads_of(turn_awaits_input(state_of()))[0]["event_type"] == "turn_complete"


def test_an_event_without_an_older_form_is_sent_as_today() -> None:
    failed = TurnFailed(turn_id="t", failure=Failure(kind="internal", message="why"))
    for event in (TurnStarted(turn_id="t"), StepStarted(step_type="inference", step_id="s"), failed):
        assert TurnStream2024().encode(Numbered(event, 1)) == TurnStream().encode(Numbered(event, 1))


def test_banks_are_a_list_beside_the_text_wherever_a_step_is_sent() -> None:
    today = json.loads(RETRIEVED.model_dump_json())
    then = {**today, "memory_bank_ids": ["bank-1", "bank-2"]}
    (complete, ended) = payloads_of(step_completed(RETRIEVED), turn_completed(state_of(RETRIEVED)))
    assert complete["step_details"] == then
    assert ended["turn"]["steps"] == [then]
    assert json.loads(turn_wire(turn_of(RETRIEVED)))["steps"] == [then]
    assert json.loads(wire_2024(turn_of(RETRIEVED).model_dump_json().encode()))["steps"] == [then]


def test_a_turn_that_retrieved_nothing_is_sent_as_it_is_stored() -> None:
    stored = turn_of(RAN).model_dump_json().encode()
    assert wire_2024(stored) is stored
    assert turn_wire(turn_of(RAN)) == stored


class Turns:
    """Starts a turn that has ended already, in which something was retrieved."""

    def start(self, _: object, ref: SessionRef, *__: object) -> TurnBroadcast:
        broadcast = TurnBroadcast(TurnRef(**dict(ref), turn_id="t"))
        broadcast.close(turn_completed(state_of(RETRIEVED)))
        return broadcast


class UseCases:
    turns = Turns()


def test_a_turn_that_is_answered_whole_has_its_banks_as_a_list() -> None:
    body = {"agent_id": "a", "session_id": "s", "messages": [{"role": "user", "content": "hi"}]}
    request = Request(
        method="POST",
        path="/agents/turn/create",
        path_params={},
        query={},
        headers={},
        body=json.dumps(body).encode(),
        caller=LOCAL_CALLER,
        scheme=None,
        use_cases=UseCases(),  # type: ignore[arg-type] # all that the route uses of it
        base="",
        about={},
    )
    reply = create_turn(request)
    assert isinstance(reply, TurnReply)
    (step,) = json.loads(asyncio.run(outcome(reply)).body)["steps"]
    assert step["memory_bank_ids"] == ["bank-1", "bank-2"]
