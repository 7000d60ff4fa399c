"""Messages of Letta's API: the rows of turns, paging over them, streams, and requests.

Covers: dialects/letta, domain/letta/agents
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnstone.dialects.letta.agents import state_of
from turnstone.dialects.letta.ids import message_id, row_in
from turnstone.dialects.letta.message_requests import LettaRequest, MessagesQuery, messages_query
from turnstone.dialects.letta.messages import AnswerTool, Note, response_of, rows_of
from turnstone.dialects.letta.requests import REFUSED, CreateLettaAgent, UpdateLettaAgent
from turnstone.dialects.letta.tool_rules import from_rule, to_rule
from turnstone.dialects.letta.turns.stream import DONE, LettaStream
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.agents import BASE_TOOLS, LettaAgent, LettaFields, tool_id, tools_of
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.tools.tool_rules import ChildTools, ConditionalTools, FirstTool, TerminalTool, ToolRule
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import Numbered, step_completed, turn_completed
from turnstone.domain.turns.loop_policies import AGENTS, LETTA, NEARLY_FULL
from turnstone.domain.turns.turns import (
    InferenceStep,
    Step,
    StepTrace,
    ToolExecutionStep,
    Turn,
    TurnState,
    TurnStatus,
    silent_output,
)
from turnstone.domain.usage.usage import TokenUsage

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IDS = [f"01a1f000-0000-7000-8000-{number:012x}" for number in range(5)]
AGENT = LettaAgent(
    agent_id="01a1f000-0000-7000-8000-00000000000a",
    config=AgentConfig(model="m", instructions="Hi {CORE_MEMORY}", name="Sam"),
    created_at=NOW,
    owner="p",
    fields=LettaFields(),
    blocks=(),
)
USED = TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15)


def call(name: str = "send_message", **arguments: Any) -> ToolCall:
    return ToolCall(call_id="c", tool_name=name, arguments={"inner_thoughts": "Hm.", **arguments})


def inference(*calls: ToolCall, text: str = "") -> Step:
    message = CompletionMessage(content=text, stop_reason="end_of_turn", tool_calls=calls)
    return InferenceStep(turn_id="t", step_id="i", started_at=NOW, completed_at=NOW, model_response=message)


def answered(of: ToolCall, content: str = "None", *, is_error: bool = False) -> Step:
    metadata = {"error": True} if is_error else None
    response = ToolResponse(call_id=of.call_id, tool_name=of.tool_name, content=content, metadata=metadata)
    return ToolExecutionStep(
        turn_id="t", step_id="s", started_at=NOW, completed_at=NOW, tool_calls=(of,), tool_responses=(response,)
    )


SEND = call(message="Hello.")
NOTE = call("note", text="x", request_heartbeat=True)
STEPS = (inference(NOTE), answered(NOTE, "no", is_error=True), inference(SEND), answered(SEND))


def turn(number: int = 0, steps: tuple[Step, ...] = STEPS, policy: Any = LETTA) -> TurnState:
    made = Turn(
        turn_id=IDS[number],
        session_id="s",
        input_messages=(UserMessage(content=f"hi {number}"),),
        steps=steps,
        output_message=silent_output(),
        started_at=NOW + timedelta(seconds=number),
    )
    traces = tuple(StepTrace(usage=USED if isinstance(step, InferenceStep) else None) for step in steps)
    return TurnState(turn=made, order=IDS[number], status=TurnStatus.COMPLETED, traces=traces, policy=policy)


def kinds(notes: Any) -> list[str]:
    return [note.message_type.removesuffix("_message") for note in notes]


def test_a_turn_has_a_row_for_each_message_and_two_notes_for_an_inference() -> None:
    rows = rows_of(turn(), AnswerTool(""))
    assert [kinds(row.notes) for row in rows] == [
        ["user"],
        ["reasoning", "tool_call"],
        ["tool_return"],
        ["user"],
        ["reasoning", "tool_call"],
        ["tool_return"],
    ]
    assert [row.number for row in rows] == list(range(6))
    assert len({note.id for row in rows for note in row.notes}) == 6
    failed = rows[2].notes[0].model_dump()
    assert (failed["status"], failed["tool_return"]) == ("error", "no")
    assert "failed" in rows[3].notes[0].model_dump()["message"]
    assert "inner_thoughts" not in rows[1].notes[1].model_dump()["tool_call"]["arguments"]


def test_a_turn_of_another_loop_has_no_automated_rows() -> None:
    rows = rows_of(turn(policy=AGENTS), AnswerTool(""))
    assert [kinds(row.notes)[0] for row in rows] == ["user", "reasoning", "tool_return", "reasoning", "tool_return"]


@pytest.mark.parametrize(("alerted", "index"), [(0, 3), (2, 6)])
def test_an_alert_is_a_row_of_the_user_before_the_inference_that_sees_it(alerted: int, index: int) -> None:
    state = turn()
    traces = tuple(
        trace.model_copy(update={"has_alert": number == alerted}) for number, trace in enumerate(state.traces)
    )
    state = state.model_copy(update={"traces": traces})
    rows, plain = rows_of(state, AnswerTool("")), rows_of(turn(), AnswerTool(""))
    assert (*rows[:index], *rows[index + 1 :]) == plain, "the other rows keep their ids"
    assert rows[index].notes[0].model_dump() == {
        "id": message_id(IDS[0], 0xFFFF),
        "date": NOW,
        "message_type": "user_message",
        "message": NEARLY_FULL.content,
    }
    assert response_of(state, AnswerTool()) == response_of(turn(), AnswerTool())


def test_an_answer_shows_messages_to_the_user_and_sums_the_tokens() -> None:
    answer = response_of(turn(), AnswerTool())
    assert kinds(answer.messages) == ["reasoning", "tool_call", "tool_return", "reasoning", "assistant"]
    assert answer.usage.model_dump(exclude={"message_type"}) == {
        "completion_tokens": 10,
        "prompt_tokens": 20,
        "total_tokens": 30,
        "step_count": 2,
    }
    plain = response_of(turn(steps=(inference(text="just text"),)), AnswerTool())
    assert [(note.message_type, note.model_dump().get("reasoning")) for note in plain.messages] == [
        ("reasoning_message", "just text")
    ]


def test_a_failed_message_to_the_user_shows_why() -> None:
    wrong = call(message=7)
    answer = response_of(turn(steps=(inference(wrong), answered(wrong, "must be a text", is_error=True))), AnswerTool())
    assert kinds(answer.messages) == ["reasoning", "tool_call", "tool_return"]


def notes_of(before: str | None, limit: int, count: int = 3) -> tuple[Note, ...]:
    query = MessagesQuery(before, limit, AnswerTool(""))
    last = query.last_turn
    turns: Iterator[TurnState] = (turn(n) for n in reversed(range(count)) if last is None or IDS[n] <= last)
    return query.notes(AGENT, turns)


@given(st.integers(1, 25))
def test_pages_of_any_size_have_each_row_once_and_end_with_the_system_message(limit: int) -> None:
    found: list[str] = []
    before: str | None = None
    while page := notes_of(before, limit):
        found = [*dict.fromkeys(note.id for note in page), *found]
        before = page[0].id
    assert found[0] == message_id(AGENT.agent_id, 0)
    assert found[1:] == [message_id(IDS[turn], row) for turn in range(3) for row in range(6)]


@pytest.mark.parametrize("before", [message_id(IDS[1], 9), message_id(IDS[4], 0), "message-0", "x", "message-x-zz"])
def test_a_message_that_the_agent_lacks_is_not_found(before: str) -> None:
    with pytest.raises(NotFound):
        notes_of(before, 5)


def test_an_id_of_a_message_round_trips() -> None:
    assert row_in(message_id(IDS[2], 300)) == row_in(f"{IDS[2]}-012c") == (IDS[2], 300)


@pytest.mark.parametrize("row", ["12c", "0012c", "0x12", "1_2c", " 12c", "+12c", "-12c", "012C", "٠١٢٣", "012c\n", ""])
def test_a_row_has_four_digits(row: str) -> None:
    with pytest.raises(NotFound):
        row_in(f"message-{IDS[2]}-{row}")


@pytest.mark.parametrize("owner", [IDS[2].upper(), IDS[2].replace("-", ""), f"{{{IDS[2]}}}", f"urn:uuid:{IDS[2]}"])
def test_the_turn_of_a_message_has_one_form(owner: str) -> None:
    with pytest.raises(NotFound):
        row_in(f"message-{owner}-012c")


def test_a_stream_has_the_rows_of_the_answer_under_the_same_ids() -> None:
    state = turn()
    stream = LettaStream(state.turn_id, 1, AnswerTool())
    events = [*map(step_completed, state.turn.steps), turn_completed(state)]
    sent = b"".join(stream.encode(Numbered(event, number)) for number, event in enumerate(events))
    answer = response_of(state, AnswerTool())
    lines = [each.model_dump_json() for each in (*answer.messages, answer.usage)]
    assert sent.decode() == "".join(f"data: {line}\n\n" for line in lines) + DONE.decode()
    assert stream.stopped("It stops.") == b'data: {"error":"It stops."}\n\n' + DONE


def test_the_tool_of_messages_to_the_user_can_be_chosen() -> None:
    query = {"assistant_message_tool_name": ["note"], "assistant_message_tool_kwarg": ["text"], "limit": ["2"]}
    chosen = messages_query(query)
    assert (chosen.limit, chosen.answers_by.text_in(NOTE)) == (2, "x")
    assert messages_query({}).answers_by.text_in(SEND) is None
    config = {"use_assistant_message": False}
    body = LettaRequest.model_validate({"messages": [{"role": "user", "text": "hi"}], "config": config})
    assert body.config.answers_by.text_in(SEND) is None


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1001", "١"])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(InvalidRequest, match="limit"):
        messages_query({"limit": [limit]})


RULES: list[ToolRule] = [
    FirstTool(type="first", tool_name="a"),
    ChildTools(type="children", tool_name="a", children=("b",)),
    ConditionalTools(
        type="conditional", tool_name="a", child_by_answer={"x": "b"}, default_child="c", needs_match=True
    ),
    TerminalTool(type="terminal", tool_name="a"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.type)
def test_tool_rules_round_trip(rule: ToolRule) -> None:
    assert to_rule(from_rule(rule)) == rule


def test_an_agent_gets_the_base_tools_its_model_and_our_prompt() -> None:
    new = CreateLettaAgent.model_validate({"llm": "local/m", "tool_ids": [f"tool-{tool_id('send_message')}"]}).to_new(
        "Name"
    )
    assert tools_of(new.config) == tuple(BASE_TOOLS)
    assert (new.config.model, new.config.name) == ("local/m", "Name")
    assert "{CORE_MEMORY}" in new.config.instructions
    bare = CreateLettaAgent.model_validate({"llm_config": {"model": "m"}, "include_base_tools": False, "system": ""})
    assert (tools_of(bare.to_new("n").config), bare.to_new("n").config.instructions) == ((), "")


@pytest.mark.parametrize("field", sorted(set(REFUSED) - {"message_ids"}))
def test_a_field_without_effect_is_refused_by_its_name_unless_it_is_empty(field: str) -> None:
    kind = str(CreateLettaAgent.model_fields[field].annotation)
    value: Any = ["x"] if "Tuple" in kind or "tuple" in kind else {"a": "b"} if "dict" in kind else 5
    value = True if "bool" in kind else "x" if "str |" in kind and "tuple" not in kind and "dict" not in kind else value
    with pytest.raises(ValidationError, match=field):
        CreateLettaAgent.model_validate({"llm": "m", field: value})
    CreateLettaAgent.model_validate({"llm": "m", field: None})


def test_an_update_changes_what_it_has_and_clears_with_empty_lists() -> None:
    update = UpdateLettaAgent.model_validate({"tags": [], "tool_ids": [], "block_ids": [], "name": None, "system": "S"})
    assert update.to_config() == {"instructions": "S", "toolgroups": ()}
    assert update.to_fields() == {"tags": ()}
    assert update.to_block_ids() == ()
    assert UpdateLettaAgent().to_block_ids() is None
    with pytest.raises(NotFound):
        UpdateLettaAgent(tool_ids=("tool-0",)).to_config()


def test_the_loop_of_an_agent_whose_tools_take_no_thoughts() -> None:
    assert LettaFields(llm_config={"put_inner_thoughts_in_kwargs": False}).policy.loop_arguments == ()
    assert LettaFields().policy == LETTA


def test_an_agent_of_another_api_is_shown_with_defaults() -> None:
    state = state_of(AGENT, "tenant")
    assert (state.name, state.system, state.llm_config["model"], state.tags) == ("Sam", "Hi {CORE_MEMORY}", "m", ())
