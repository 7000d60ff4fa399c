"""Input items become the messages of a model, and outputs are folded from events in one form for all readers.

Covers: dialects/openai/responses/input, dialects/openai/responses/folding, dialects/openai/responses/stream
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from turnstone.dialects.openai.responses.folding import response_of
from turnstone.dialects.openai.responses.input.items import AnyItem, given_input, shown_items, stored_items
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream
from turnstone.domain.messages.messages import CompletionMessage, StopReason
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Chunk, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.turns.cuts import cuts_of
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import (
    InferenceStep,
    SafetyViolation,
    ShieldCallStep,
    StepTrace,
    Turn,
    TurnState,
    TurnStatus,
    silent_output,
)
from turnstone.domain.usage.usage import TokenUsage
from turnstone.services.streams.replay import numbered

ITEMS = TypeAdapter(list[AnyItem])
TURN_ID = "01990000-0000-7000-8000-000000000001"
REF = TurnRef(tenant="t", agent_id="responses", session_id="01990000-0000-7000-8000-000000000002", turn_id=TURN_ID)
SHOWN = ShownResponse(REF, SentRequest(echo={"model": "m"}, functions=("add",)))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALL = call_from_json("c1", "add", '{"a": 1}')


def inferred(*chunks: Chunk, calls: tuple[ToolCall, ...] = (), reason: StopReason = "end_of_turn") -> TurnState:
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    answer = CompletionMessage(content=text, stop_reason=reason, tool_calls=calls)
    cuts = cuts_of(chunks, Inferred(answer, reasoning=reasoning))
    usage = TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5)
    trace = StepTrace(deltas=len(chunks), reasoning=reasoning, cuts=cuts, usage=usage)
    step = InferenceStep(turn_id=TURN_ID, step_id="s", started_at=NOW, completed_at=NOW, model_response=answer)
    turn = Turn(turn_id=TURN_ID, session_id="s", input_messages=(), output_message=silent_output(), started_at=NOW)
    state = TurnState(turn=turn, order=TURN_ID, keeps_details=True).with_step(step, trace)
    return state.completed(answer, NOW)


def streamed(state: TurnState) -> list[dict[str, Any]]:
    encoder = ResponseStream(SHOWN)
    wire = b"".join(map(encoder.encode, numbered(state, is_detailed=True))).decode()
    events = []
    for block in wire.split("\n\n")[:-1]:
        named, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert named == f"event: {events[-1]['type']}"
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    return events


def read(state: TurnState) -> dict[str, Any]:
    return response_of(SHOWN, state, numbered(state, is_detailed=True))


@pytest.mark.parametrize(
    "state",
    [
        inferred(TextChunk("Hi "), TextChunk("😀")),
        inferred(ReasoningChunk("Hm."), TextChunk("Yes."), ReasoningChunk("Or?"), TextChunk("No.")),
        inferred(CallBegun(0, "c1", "add"), ArgumentsChunk(0, '{"a"'), ArgumentsChunk(0, ": 1}"), calls=(CALL,)),
        inferred(TextChunk("Once"), reason="out_of_tokens"),
        inferred(),
    ],
)
def test_a_stream_ends_with_the_response_that_is_read(state: TurnState) -> None:
    events = streamed(state)
    assert events[-1]["response"] == json.loads(json.dumps(read(state)))
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    begun = [each["item"]["id"] for each in events if each["type"] == "response.output_item.added"]
    assert begun == [item["id"] for item in done]


def test_reasoning_text_and_calls_are_items_in_the_order_of_the_model() -> None:
    parts = (ReasoningChunk("Hm."), TextChunk("Yes."), CallBegun(0, "c1", "add"), ArgumentsChunk(0, '{"a": 1}'))
    output = read(inferred(*parts, calls=(CALL,)))["output"]
    assert [(item["type"], item["status"]) for item in output] == [
        *(("reasoning", "completed"), ("message", "completed")),
        ("function_call", "completed"),
    ]
    assert output[2]["arguments"] == '{"a": 1}'


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]"])
def test_a_call_that_cant_be_run_is_not_offered(arguments: str) -> None:
    broken = call_from_json("c1", "add", arguments)
    state = inferred(CallBegun(0, "c1", "add"), ArgumentsChunk(0, arguments), calls=(broken,), reason="out_of_tokens")
    assert (read(state)["status"], read(state)["output"]) == ("incomplete", [])
    (done,) = (each for each in streamed(state) if each["type"] == "response.output_item.done")
    assert done["item"]["status"] == "incomplete"


def test_calls_of_the_servers_tools_are_not_the_clients() -> None:
    other = call_from_json("c1", "search", "{}")
    state = inferred(CallBegun(0, "c1", "search"), ArgumentsChunk(0, "{}"), calls=(other,))
    assert read(state)["output"] == []


def test_a_cut_off_text_is_incomplete() -> None:
    response = read(inferred(TextChunk("Once"), reason="out_of_tokens"))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert response["output"][0]["status"] == "incomplete"


def test_the_words_of_a_shield_are_a_refusal() -> None:
    state = inferred()
    violation = SafetyViolation(violation_level="error", user_message="No.")
    step = ShieldCallStep(turn_id=TURN_ID, step_id="x", started_at=NOW, completed_at=NOW, violation=violation)
    state = state.with_step(step, StepTrace(touchpoint="user-input"))
    state = state.completed(CompletionMessage(content="No.", stop_reason="end_of_turn"), NOW)
    (item,) = read(state)["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "No."}]
    kinds = [each["type"] for each in streamed(state)]
    assert "response.refusal.delta" in kinds
    assert "response.refusal.done" in kinds


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (TurnStatus.FAILED, "model_failed", ("failed", "server_error")),
        (TurnStatus.FAILED, "model_busy", ("failed", "rate_limit_exceeded")),
        (TurnStatus.CANCELLED, "ended", ("cancelled", None)),
    ],
)
def test_a_turn_without_an_answer_keeps_its_items(status: TurnStatus, kind: Any, expected: tuple[str, Any]) -> None:
    running = inferred(TextChunk("Once"))
    failed = running.ended_unanswered(status, Failure(kind=kind, message="secret of the provider"), NOW)
    response = read(failed)
    assert (response["status"], (response["error"] or {}).get("code")) == expected
    assert "secret" not in json.dumps(response["error"]) or kind == "ended"
    assert [item["type"] for item in response["output"]] == ["message"]
    assert streamed(failed)[-1]["type"] == "response.failed"


def test_usage_is_that_of_all_inferences() -> None:
    usage = read(inferred(TextChunk("a")))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 2, 5)


def test_items_become_messages_with_calls_at_the_message_before_them() -> None:
    items = ITEMS.validate_python(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Well."}]},
            {"type": "function_call", "call_id": "x", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "x", "output": "3"},
            {"type": "function_call_output", "call_id": "y", "output": "4"},
        ]
    )
    given = given_input(items)
    assert [message.role for message in given.messages] == ["system", "user", "assistant", "tool", "tool"]
    answer = given.messages[2]
    assert isinstance(answer, CompletionMessage)
    assert (answer.content, [call.call_id for call in answer.tool_calls]) == ("Well.", ["x"])
    assert [tuple(each) for each in given.given] == [(6, "y")]


def test_shown_items_have_ids_and_content_in_parts() -> None:
    stored = stored_items(
        ITEMS.validate_python([{"role": "user", "content": "hi"}, {"role": "user", "content": "ho", "id": "a"}])
    )
    first, second = shown_items(stored, TURN_ID)
    assert first["id"] == "msg_019900000000700080000000000000018000"
    assert (second["id"], second["content"]) == ("a", [{"type": "input_text", "text": "ho"}])


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "msg_1"},
        {"type": "computer_call_output", "call_id": "a"},
        {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]},
        {"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]},
        {"role": "user", "content": []},
        {"role": "critic", "content": "a"},
        {"content": "a"},
        {"type": "reasoning", "summary": [], "encrypted_content": "a"},
    ],
)
def test_items_that_are_not_served_are_refused(item: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ITEMS.validate_python([item])


@pytest.mark.parametrize(
    ("item", "call", "answer"),
    [
        (
            {
                "type": "file_search_call",
                "queries": ["cats"],
                "results": [{"text": "Meow.", "score": 0.5}],
                "id": "fs_1",
            },
            ("file_search", {"query": "cats"}),
            "Meow.",
        ),
        (
            {"type": "file_search_call", "queries": ["cats"], "results": None, "id": "fs_1", "status": "completed"},
            ("file_search", {"query": "cats"}),
            "The results of this call are not in the history.",
        ),
        (
            {"type": "file_search_call", "queries": ["cats"], "results": [], "id": "fs_1", "status": "completed"},
            ("file_search", {"query": "cats"}),
            "The call has no results.",
        ),
        (
            {"type": "file_search_call", "queries": ["cats"], "results": [], "id": "fs_1", "status": "failed"},
            ("file_search", {"query": "cats"}),
            "The call failed.",
        ),
        (
            {
                "type": "web_search_call",
                "action": {"type": "search", "query": "cats", "sources": [{"type": "url", "url": "https://cats.test"}]},
                "id": "ws_1",
            },
            ("web_search", {"query": "cats"}),
            "https://cats.test",
        ),
        (
            {"type": "web_search_call", "action": {"type": "open_page", "url": "https://a.test"}, "id": "ws_1"},
            ("web_search", {"url": "https://a.test"}),
            "The results of this call are not in the history.",
        ),
        (
            {
                "type": "code_interpreter_call",
                "code": "print(2)",
                "container_id": "auto",
                "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "https://a.test/i"}],
                "id": "ci_1",
            },
            ("code_interpreter", {"code": "print(2)"}),
            "2\n[image]",
        ),
        (
            {"type": "code_interpreter_call", "code": "x", "container_id": "auto", "status": "failed", "id": "ci_1"},
            ("code_interpreter", {"code": "x"}),
            "The call failed.",
        ),
        (
            {"type": "image_generation_call", "result": "aGk=", "revised_prompt": "a cat", "id": "ig_1"},
            ("image_generation", {"query": "a cat"}),
            "[image]",
        ),
    ],
)
def test_a_call_of_a_servers_tool_is_a_call_and_its_answer(
    item: dict[str, Any], call: tuple[str, dict[str, Any]], answer: str
) -> None:
    items = ITEMS.validate_python([{"role": "user", "content": "hi"}, item, {"role": "assistant", "content": "So."}])
    _, called, answered, _ = given_input(items).messages
    assert isinstance(called, CompletionMessage)
    assert [(each.tool_name, each.arguments) for each in called.tool_calls] == [call]
    assert (answered.call_id, answered.content) == (item["id"], answer)
    assert shown_items(stored_items(items), TURN_ID)[1] == {k: v for k, v in item.items() if v is not None}
