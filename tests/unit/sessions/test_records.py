"""Turns, steps, sessions and segments as records: each is read as it was stored.

Covers: store/layout/frames, store/layout/keys, store/sessions/session_records, store/sessions/turn_records
"""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.domain.agents.agents import (
    AgentConfig,
    SamplingParams,
    Strategy,
    ToolConfig,
    ToolGroupWithArgs,
    TopK,
    TopP,
    TurnOverrides,
)
from turnstone.domain.messages.messages import CompletionMessage, ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import Entry, Segment, entry_of
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolParameter, ToolResponse, call_from_json
from turnstone.domain.turns.failures import Failure, FailureKind
from turnstone.domain.turns.turns import (
    Attachment,
    InferenceStep,
    MemoryRetrievalStep,
    SafetyViolation,
    ShieldCallStep,
    StepTrace,
    ToolExecutionStep,
    Turn,
    TurnState,
    TurnStatus,
    silent_output,
)
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url
from turnstone.domain.values.frozen import MAX_DEPTH
from turnstone.ports.records import Absent, Put, Record, RevIs
from turnstone.store.layout.frames import wire_part
from turnstone.store.layout.keys import open_shard
from turnstone.store.sessions.session_records import put_segment, put_session, segment_of, session_of
from turnstone.store.sessions.turn_records import put_step, put_turn, turn_state_of

PROPERTY = settings(deadline=None, max_examples=20)
REF = SessionRef(tenant="local", agent_id="a1", session_id="s1")
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

TEXT = st.text(max_size=8)
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
OBJECTS = st.dictionaries(TEXT, SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXT, SCALARS), max_size=2)
IMAGES = st.builds(Image, url=st.none() | st.builds(Url, uri=TEXT), data=st.none() | TEXT)
ITEMS = st.builds(TextItem, text=TEXT) | st.builds(ImageItem, image=IMAGES)
CONTENTS = TEXT | ITEMS | st.lists(ITEMS, max_size=2).map(tuple)
CALLS = st.builds(ToolCall, call_id=TEXT, tool_name=TEXT, arguments=TEXT | OBJECTS, arguments_json=st.none() | TEXT)
CALL_TUPLES = st.lists(CALLS, max_size=2).map(tuple)
RESPONSES = st.builds(ToolResponse, call_id=TEXT, tool_name=TEXT, content=CONTENTS, metadata=st.none() | OBJECTS)
STOP_REASONS = st.sampled_from(["end_of_turn", "end_of_message", "out_of_tokens"])
COMPLETIONS = st.builds(CompletionMessage, content=CONTENTS, stop_reason=STOP_REASONS, tool_calls=CALL_TUPLES)
INPUTS = st.builds(UserMessage, content=CONTENTS, context=st.none() | CONTENTS) | st.builds(
    ToolResponseMessage, call_id=TEXT, content=CONTENTS
)
STEP = {"turn_id": TEXT, "step_id": TEXT, "started_at": st.none() | TIMES, "completed_at": st.none() | TIMES}
LEVELS = st.sampled_from(["info", "warn", "error"])
VIOLATIONS = st.builds(SafetyViolation, violation_level=LEVELS, user_message=st.none() | TEXT, metadata=OBJECTS)
RESPONSE_TUPLES = st.lists(RESPONSES, max_size=2).map(tuple)
STEPS = st.one_of(
    st.builds(InferenceStep, **STEP, model_response=COMPLETIONS),
    st.builds(ToolExecutionStep, **STEP, tool_calls=CALL_TUPLES, tool_responses=RESPONSE_TUPLES),
    st.builds(ShieldCallStep, **STEP, violation=st.none() | VIOLATIONS),
    st.builds(MemoryRetrievalStep, **STEP, vector_db_ids=TEXT, inserted_context=CONTENTS),
)
COUNTS = st.integers(0, 1_000)
USAGES = st.builds(TokenUsage, prompt_tokens=COUNTS, completion_tokens=COUNTS, total_tokens=COUNTS)
TRACES = st.builds(StepTrace, deltas=COUNTS, is_from_client=st.booleans(), usage=st.none() | USAGES)
STEP_LISTS = st.lists(st.tuples(STEPS, TRACES), max_size=3)
ATTACHMENTS = st.builds(Attachment, content=CONTENTS | st.builds(Url, uri=TEXT), mime_type=TEXT)
TURNS = st.builds(
    Turn,
    turn_id=TEXT,
    session_id=TEXT,
    input_messages=st.lists(INPUTS, max_size=2).map(tuple),
    output_message=COMPLETIONS,
    output_attachments=st.lists(ATTACHMENTS, max_size=1).map(tuple),
    started_at=TIMES,
    completed_at=st.none() | TIMES,
)
PARAMETERS = st.builds(
    ToolParameter, name=TEXT, parameter_type=TEXT, description=TEXT, required=st.booleans(), default=SCALARS
)
TOOL_DEFS = st.builds(
    ToolDef,
    name=TEXT,
    description=st.none() | TEXT,
    parameters=st.none() | st.lists(PARAMETERS, max_size=2).map(tuple),
    metadata=st.none() | OBJECTS,
) | st.builds(
    ToolDef,
    name=TEXT,
    input_schema=OBJECTS.map(lambda properties: {"type": "object", "properties": dict.fromkeys(properties, True)}),
    output_schema=st.none() | OBJECTS,
)
NAMES = st.none() | st.lists(TEXT, max_size=2).map(tuple)
TOOLGROUPS = st.none() | st.lists(TEXT | st.builds(ToolGroupWithArgs, name=TEXT, args=OBJECTS), max_size=2).map(tuple)
OVERRIDES = st.builds(
    TurnOverrides,
    instructions=st.none() | TEXT,
    sampling_params=st.none() | st.builds(SamplingParams, max_tokens=COUNTS, stop=NAMES),
    input_shields=NAMES,
    output_shields=NAMES,
    toolgroups=TOOLGROUPS,
    client_tools=st.none() | st.lists(TOOL_DEFS, max_size=2).map(tuple),
    tool_config=st.none() | st.builds(ToolConfig, tool_choice=TEXT, tool_prompt_format=st.sampled_from([None, "json"])),
    max_infer_iters=st.none() | st.integers(1, 100),
) | st.builds(TurnOverrides, tool_choice=st.sampled_from(["auto", "required"]))
FAILURES = st.builds(
    Failure,
    kind=st.sampled_from(get_args(FailureKind)),
    message=TEXT,
    provider_status=st.none() | st.integers(300, 599),
    retry_after_s=st.none() | st.integers(0, 21_600),
)
STATUSES = st.sampled_from(TurnStatus)
OPEN = STATUSES.filter(lambda status: not status.is_terminal)
TERMINAL = STATUSES.filter(lambda status: status.is_terminal)


@st.composite
def states(draw: st.DrawFn, statuses: st.SearchStrategy[TurnStatus] = STATUSES) -> TurnState:
    state = TurnState(
        turn=draw(TURNS),
        order=draw(TEXT),
        status=draw(statuses),
        pending_calls=draw(CALL_TUPLES),
        overrides=draw(OVERRIDES),
        input_shields=draw(st.lists(TEXT, max_size=2).map(tuple)),
        failure=draw(st.none() | FAILURES),
        takeovers=draw(COUNTS),
        rev=draw(COUNTS),
    )
    for step, trace in draw(STEP_LISTS):
        state = state.with_step(step, trace)
    return state.with_shown_failure()


def stored(put: Put) -> Record:
    rev = next((condition.rev for condition in put.when if isinstance(condition, RevIs)), 0) + 1
    return Record(put.key, put.body, put.attributes, rev)


@settings(PROPERTY)
@given(states())
def test_a_turn_is_read_as_it_was_stored_and_its_second_line_is_its_wire_json(state: TurnState) -> None:
    record = stored(put_turn(REF, state))
    assert state.model_copy(update={"rev": state.rev + 1}) == turn_state_of(record)
    assert state.turn.model_dump_json(exclude={"failure"}).encode() == wire_part(record.body)


@settings(PROPERTY)
@given(states())
def test_a_turn_is_in_the_open_index_until_it_ends_and_guarded_by_its_revision(state: TurnState) -> None:
    put, indexed = put_turn(REF, state), {} if state.status.is_terminal else {"open": open_shard(REF)}
    assert {"status": state.status.value, **indexed} == put.attributes
    assert ((RevIs(state.rev),) if state.rev else (Absent(),)) == put.when


def with_steps(state: TurnState, steps: list[tuple[Any, StepTrace]]) -> tuple[TurnState, tuple[Record, ...]]:
    """Return the state with the steps, and the records they are stored as beside the turn."""
    records = []
    for step, trace in steps:
        state = state.with_step(step, trace)
        records.append(stored(put_step(REF, state)))
    return state, tuple(records)


@settings(PROPERTY)
@given(states(OPEN), STEP_LISTS)
def test_steps_stored_beside_an_open_turn_are_joined_to_it_in_order(
    state: TurnState, steps: list[tuple[Any, StepTrace]]
) -> None:
    whole, records = with_steps(state, steps)
    assert whole.model_copy(update={"rev": state.rev + 1}) == turn_state_of(stored(put_turn(REF, state)), records)


@settings(PROPERTY)
@given(states(OPEN), STEP_LISTS)
def test_steps_that_an_open_turn_holds_itself_are_not_joined_twice(
    state: TurnState, steps: list[tuple[Any, StepTrace]]
) -> None:
    paused, records = with_steps(state, steps)
    assert paused.model_copy(update={"rev": state.rev + 1}) == turn_state_of(stored(put_turn(REF, paused)), records)


@settings(PROPERTY)
@given(states(TERMINAL), STEP_LISTS)
def test_steps_beside_an_ended_turn_are_ignored(state: TurnState, steps: list[tuple[Any, StepTrace]]) -> None:
    _, records = with_steps(state, steps)
    assert state.model_copy(update={"rev": state.rev + 1}) == turn_state_of(stored(put_turn(REF, state)), records)


def new_state(**fields: Any) -> TurnState:
    turn = Turn(turn_id="t1", session_id="s1", input_messages=(), output_message=silent_output(), started_at=NOW)
    return TurnState(turn=turn, order="t1", **fields)


@pytest.mark.parametrize("strategy", [TopP(temperature=None), TopP(temperature=0.5), TopK(top_k=3)])
def test_a_strategy_that_a_turn_overrides_is_remembered(strategy: Strategy) -> None:
    overrides = TurnOverrides(sampling_params=SamplingParams(strategy=strategy))
    assert overrides == turn_state_of(stored(put_turn(REF, new_state(overrides=overrides)))).overrides


@pytest.mark.parametrize("status", TurnStatus)
def test_a_configuration_is_stored_with_a_turn_until_it_ends(status: TurnStatus) -> None:
    config = AgentConfig(model="m", instructions="Be brief.")
    put = put_turn(REF, new_state(config=config, status=status))
    assert (b"Be brief." in put.body) == (not status.is_terminal)
    assert turn_state_of(stored(put)).config == (None if status.is_terminal else config)


LOCKS = st.one_of(
    st.builds(SessionLock, fence=COUNTS),
    st.builds(SessionLock, state=st.just(LockState.RUNNING), order=TEXT, fence=COUNTS, lease_until=TIMES),
    st.builds(SessionLock, state=st.just(LockState.AWAITING), order=TEXT, fence=COUNTS, await_until=TIMES),
)
SESSIONS = st.builds(
    Session,
    agent_id=TEXT,
    session_id=TEXT,
    session_name=TEXT,
    started_at=TIMES,
    order=TEXT,
    last_order=st.none() | TEXT,
    last_request=st.none() | TEXT,
    lock=LOCKS,
    rev=COUNTS,
)


@settings(PROPERTY)
@given(SESSIONS)
def test_a_session_is_read_as_it_was_stored_with_its_lock(session: Session) -> None:
    put = put_session(REF, session)
    after = session.model_copy(update={"rev": session.rev + 1})
    # the process keeps the bytes that it wrote, with their session, and reads all others
    assert after == session_of(stored(put)) == session_of(stored(put._replace(body=put.body + b" ")))
    assert ((RevIs(session.rev),) if session.rev else (Absent(),)) == put.when


MESSAGES = st.lists(INPUTS | COMPLETIONS, max_size=3).map(tuple)
ENTRIES = st.builds(Entry, order=TEXT, tokens=COUNTS, messages=st.none() | MESSAGES)


def assert_stored(segment: Segment) -> None:
    """Compare the segment with its record, which this process has not seen: it keeps those that it wrote."""
    put = put_segment(REF, segment)
    left_out = {"summary"} if segment.summary is None else None
    assert put.body == put_segment(REF, segment).body == segment.model_dump_json(exclude=left_out).encode()
    assert segment == Segment.model_validate_json(put.body)
    assert segment_of(stored(put)) is segment


@settings(PROPERTY)
@given(st.builds(Segment, number=st.integers(0, 10**10 - 1), entries=st.lists(ENTRIES, max_size=2).map(tuple)))
def test_a_segment_is_read_as_it_was_stored(segment: Segment) -> None:
    assert_stored(segment)


def test_nulls_in_the_arguments_of_a_call_are_kept() -> None:
    call = call_from_json("c1", "find", '{"query": null, "within": {"days": null}}')
    answer = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call,))
    step = InferenceStep(turn_id="t1", step_id="i", model_response=answer)
    state = new_state(pending_calls=(call,)).with_step(step)
    read = turn_state_of(stored(put_turn(REF, state)))
    assert read.pending_calls[0].arguments == {"query": None, "within": {"days": None}}
    assert state.turn == read.turn
    segment = Segment(number=0, entries=(entry_of(state.model_copy(update={"status": TurnStatus.COMPLETED})),))
    assert_stored(segment)


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1) if depth > 1 else 1}


@pytest.mark.parametrize(
    "written",
    [
        *(json.dumps(nested(depth)) for depth in (MAX_DEPTH, MAX_DEPTH + 1, 194, 200, 400)),
        '{"a": "\\ud800"}',
        '{"a": NaN}',
        '{"a": [{"b": -1e999}]}',
        '{"a": ' + "9" * 5_000 + "}",
    ],
    ids=["deep", "too deep", "194 deep", "200 deep", "400 deep", "half a character", "NaN", "infinity", "long number"],
)
def test_any_arguments_of_a_model_can_be_stored_and_read(written: str) -> None:
    answer = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call_from_json("c1", "f", written),))
    state = new_state().with_step(InferenceStep(turn_id="t1", step_id="i", model_response=answer))
    assert state.turn == turn_state_of(stored(put_turn(REF, state))).turn
    segment = Segment(number=0, entries=(entry_of(state.model_copy(update={"status": TurnStatus.COMPLETED})),))
    assert_stored(segment)


def test_the_deepest_that_is_accepted_can_be_stored_and_read() -> None:
    deepest = nested(MAX_DEPTH)
    call = ToolCall(call_id="c1", tool_name="f", arguments=deepest)
    parameter = ToolParameter(name="p", parameter_type="dict", description="", default=deepest)
    response = ToolResponse(call_id="c1", tool_name="f", content="", metadata=deepest)
    overrides = TurnOverrides(
        client_tools=(
            ToolDef(name="f", parameters=(parameter,), metadata=deepest),
            ToolDef(name="g", input_schema={"type": "object", "$defs": nested(MAX_DEPTH - 1)}, output_schema=deepest),
        ),
        toolgroups=(ToolGroupWithArgs(name="g", args=deepest),),
    )
    step = ToolExecutionStep(turn_id="t1", step_id="x", tool_calls=(call,), tool_responses=(response,))
    state = new_state(pending_calls=(call,), overrides=overrides).with_step(step)
    assert state.model_copy(update={"rev": 1}) == turn_state_of(stored(put_turn(REF, state)))


def test_a_typical_session_is_less_than_a_kilobyte() -> None:
    an_id = "0196a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
    session = Session(
        agent_id=an_id,
        session_id=an_id,
        session_name="What to do about the invoices of last year",
        started_at=NOW,
        order=an_id,
        last_order=an_id,
        last_request="f" * 64,
        lock=SessionLock(state=LockState.RUNNING, order=an_id, fence=1_000, lease_until=NOW),
        rev=2_000,
    )
    put = put_session(SessionRef(tenant=an_id, agent_id=an_id, session_id=an_id), session)
    assert len(put.body) + len(f"{put.key.pk}{put.key.sk}{put.attributes}") < 1_024


def test_a_turn_keeps_nothing_private_that_is_as_always() -> None:
    wire = new_state().turn.model_dump_json().encode()
    assert b'{"v":1}\n' + wire == put_turn(REF, new_state()).body
