"""The life of a turn over a real database: its events, its records, and the messages that later inferences read.

Covers: services/turns/turns, services/turns/running, services/turns/run_request, services/turns/reading,
  store/sessions/turn_records
"""

import random
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply, call, calls, cut_off
from tests.support.engine.harness import (
    AWAIT_S,
    Harness,
    Held,
    all_records,
    answer,
    client_tool,
    contents,
    finished_steps,
    outline,
    reads,
    saves_step,
    serving,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import Greedy, SamplingParams, ToolConfig, TopK, TopP
from turnstone.domain.errors import (
    CallsMismatch,
    InvalidRequest,
    ModelBusy,
    ModelError,
    ModelFailed,
    ModelTimedOut,
    NotFound,
    ToolFailed,
)
from turnstone.domain.messages.messages import SystemMessage, ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import Entry, Segment, ended_messages, tokens_of
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.tools.tools import ToolDef, ToolParameter, ToolResponse
from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.ports.records import MAX_OPERATIONS, Put
from turnstone.store.layout.keys import step_key, steps_of_turn
from turnstone.store.sessions.session_records import put_segment

Serve = Callable[..., Harness]
DICE = {"dice": {"roll": lambda arguments: "4"}}
ROLL = call("roll", "c1", sides=6)
CLIENT_CALL = call("look", "c2", where="left")
WHERE = ToolParameter(name="where", parameter_type="string", description="", required=False, default=None)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def shown_turns(server: Harness, ref: SessionRef) -> list[Turn]:
    """Return the turns as a reader of the session gets them."""
    _, pieces = server.core.sessions.read(LOCAL_CALLER, ref, None)
    return [Turn.model_validate_json(piece) for piece in pieces]


def is_about(at: datetime | None, expected: datetime) -> bool:
    """Return whether a time is the expected one, but for the offsets that keep the times of a turn in order."""
    return at is not None and timedelta() <= at - expected < timedelta(milliseconds=1)


def test_a_plain_turn(serve: Serve) -> None:
    server = serve([ScriptedReply(texts=("Hel", "lo"))])
    ref = server.session(instructions="Be brief.")
    broadcast = server.start(ref, "hi")
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P P C:infer complete"
    turn = turn_in(events)
    assert (turn.output_message.content, turn.output_message.stop_reason) == ("Hello", "end_of_turn")
    assert turn.steps == finished_steps(events)
    assert is_about(turn.completed_at, server.clock.now())
    assert server.reader.read(LOCAL_CALLER, broadcast.ref).turn == turn
    assert shown_turns(server, ref) == [turn]
    (request,) = server.inference.requests
    assert request.messages == (SystemMessage(content="Be brief."), UserMessage(content="hi"))
    server.assert_whole(ref)


def test_a_plain_turn_takes_three_round_trips(serve: Serve) -> None:
    server = serve(["one", "two"])
    ref = server.session()
    server.whole_turn(ref)
    before = len(server.store.calls)
    server.whole_turn(ref)
    made = [call.verb for call in server.store.calls[before:] if call.keys or call.operations]
    assert made == ["gather", "write", "write"]


def test_a_turn_with_a_server_tool_stores_each_step_before_it_is_published(serve: Serve) -> None:
    thinking = Held(ROLL)
    server = serve([thinking, "You rolled 4."], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref, "roll")
    published_when_stored: list[str] = []
    server.store.after(saves_step, lambda: published_when_stored.append(outline(broadcast.events)), times=2)
    thinking.open()
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"
    assert published_when_stored == ["start S:infer P", "start S:infer P C:infer S:tool P"]
    turn = turn_in(events)
    assert turn.steps == finished_steps(events) == server.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps
    assert turn.steps[1].tool_responses[0].content == "4"
    (invocation,) = server.tools.invocations
    assert (invocation.arguments, invocation.ref, invocation.chain) == ({"sides": 6}, ref, ())
    server.assert_whole(ref)


def test_a_failing_tool_is_an_answer(serve: Serve) -> None:
    def fail(_: object) -> str:
        raise ToolFailed("the die fell off the table")

    server = serve([ROLL, "Sorry."], {"dice": {"roll": fail}})
    ref = server.session(toolgroups=["dice"])
    turn = turn_in(server.whole_turn(ref))
    assert turn.steps[1].tool_responses[0].content == "the die fell off the table"
    assert "the die fell off the table" in contents(server.inference.requests[1].messages)


def test_a_turn_pauses_for_a_client_tool_and_continues(serve: Serve) -> None:
    server = serve([calls(CLIENT_CALL, text="Let me see."), "A door."])
    ref = server.session(client_tools=[client_tool()])
    broadcast = server.start(ref, "what is there?")
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P P C:infer awaiting"
    output = turn_in(events).output_message
    assert (output.content, output.tool_calls, output.stop_reason) == ("Let me see.", (CLIENT_CALL,), "end_of_message")
    assert server.reader.read(LOCAL_CALLER, broadcast.ref).turn == turn_in(events)
    assert server.supervisor.watched[broadcast.ref] == server.header(ref).lock.await_until
    server.assert_whole(ref)

    resumed = server.resume(broadcast.ref, answer("c2", "a door"))
    events = server.drain(resumed)
    assert outline(events) == "C:tool S:infer P C:infer complete"
    turn = turn_in(events)
    assert (turn.turn_id, turn.output_message.content) == (broadcast.ref.turn_id, "A door.")
    assert [step.step_type for step in turn.steps] == ["inference", "tool_execution", "inference"]
    assert len({step.step_id for step in turn.steps}) == 3
    assert contents(server.inference.requests[1].messages) == ["what is there?", "Let me see.", "a door"]
    assert server.reader.read(LOCAL_CALLER, broadcast.ref).turn == turn
    server.assert_whole(ref)


def test_of_mixed_calls_the_servers_run_first_and_the_client_gets_only_its_own(serve: Serve) -> None:
    server = serve([calls(CLIENT_CALL, ROLL), "done"], DICE)
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    broadcast = server.start(ref)
    events = server.drain(broadcast)
    assert outline(events) == "start S:infer P P C:infer S:tool P C:tool awaiting"
    assert turn_in(events).output_message.tool_calls == (CLIENT_CALL,)
    assert turn_in(events).steps == server.reader.read(LOCAL_CALLER, broadcast.ref).turn.steps == finished_steps(events)
    events = server.drain(server.resume(broadcast.ref, answer("c2")))
    assert [step.step_type for step in turn_in(events).steps] == ["inference", *["tool_execution"] * 2, "inference"]
    server.assert_whole(ref)


def test_a_turn_can_pause_twice(serve: Serve) -> None:
    server = serve([call("look", "a"), call("look", "b"), "done"])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    server.clock.advance(AWAIT_S - 1)
    again = server.drain(server.resume(turn, answer("a")))
    assert outline(again) == "C:tool S:infer P C:infer awaiting"
    assert [pending.call_id for pending in turn_in(again).output_message.tool_calls] == ["b"]
    server.clock.advance(AWAIT_S - 1)
    events = server.drain(server.resume(turn, answer("b")))
    assert outline(events) == "C:tool S:infer P C:infer complete"
    assert len(turn_in(events).steps) == 5
    server.assert_whole(ref)


def test_the_limit_of_inferences_counts_over_resumes(serve: Serve) -> None:
    server = serve([call("look", "a"), call("look", "b"), "next turn"])
    ref = server.session(client_tools=[client_tool()], max_infer_iters=2)
    turn = server.paused(ref)
    events = server.drain(server.resume(turn, answer("a")))
    assert outline(events) == "C:tool S:infer P C:infer complete"
    assert turn_in(events).output_message.tool_calls == ()
    server.whole_turn(ref)
    assert "Not executed: the turn reached its limit" in " ".join(contents(server.inference.requests[-1].messages))
    server.assert_whole(ref)


def test_an_answer_cut_off_by_the_token_limit_ends_the_turn(serve: Serve) -> None:
    server = serve([cut_off("I was about to")])
    ref = server.session()
    assert turn_in(server.whole_turn(ref)).output_message.stop_reason == "out_of_tokens"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ModelFailed("no"), "model_failed"),
        (ModelBusy("full", retry_after_s=7, status=429), "model_busy"),
        (ModelTimedOut("slow"), "model_timed_out"),
    ],
)
def test_when_the_model_fails_the_finished_steps_are_kept(serve: Serve, error: ModelError, kind: str) -> None:
    server = serve([ROLL, ScriptedReply(texts=("You",), error=error), "hello again"], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref, "roll")
    events = server.drain(broadcast)
    assert outline(events) == f"start S:infer P C:infer S:tool P C:tool S:infer P failed:{kind}"
    state = server.state(broadcast.ref)
    assert (state.status, state.turn.steps) == (TurnStatus.FAILED, finished_steps(events))
    assert state.failure is not None
    assert (state.failure.kind, state.failure.message) == (kind, str(error))
    retry_after_s = error.retry_after_s if isinstance(error, ModelBusy) else None
    assert (state.failure.provider_status, state.failure.retry_after_s) == (error.status, retry_after_s)
    assert server.header(ref).lock.state is LockState.IDLE
    server.assert_whole(ref)

    assert outline(server.whole_turn(ref, "are you there?")).endswith("complete")
    assert contents(server.inference.requests[-1].messages) == ["roll", "", "4", "are you there?"]
    server.assert_whole(ref)


@pytest.mark.parametrize(
    "overrides",
    [
        {"instructions": "Speak like a pirate."},
        {"instructions": ""},
        {"sampling_params": SamplingParams(max_tokens=7, stop=("stop",))},
        {"sampling_params": SamplingParams(strategy=Greedy())},
        {"sampling_params": SamplingParams(strategy=TopP(temperature=0.5))},
        {"sampling_params": SamplingParams(strategy=TopP(temperature=None, top_p=0.5))},
        {"sampling_params": SamplingParams(strategy=TopK(top_k=3))},
        {"toolgroups": ["dice", {"name": "coin/flip", "args": {"sides": None}}]},
        {"client_tools": [client_tool(), ToolDef(name="listen", parameters=(WHERE,), metadata={"by": "us"})]},
        {"tool_config": ToolConfig(tool_choice="none")},
        {"max_infer_iters": 3},
    ],
    ids=lambda overrides: next(iter(overrides)),
)
def test_a_turns_overrides_are_remembered_over_resume(serve: Serve, overrides: dict) -> None:
    tools = {**DICE, "coin": {"flip": lambda arguments: "heads"}}
    server = serve([CLIENT_CALL, CLIENT_CALL, CLIENT_CALL, CLIENT_CALL], tools)
    usual = SamplingParams(strategy=TopP(temperature=1.0, top_p=0.9), max_tokens=5)
    ref = server.session(instructions="Be brief.", sampling_params=usual, client_tools=[client_tool()])
    turn = server.paused(ref, **overrides)
    server.drain(server.resume(turn, answer("c2")))
    first, second = server.inference.requests
    assert (first.sampling, first.tools, first.tool_choice) == (second.sampling, second.tools, second.tool_choice)
    assert first.messages[:-1] == second.messages[: len(first.messages) - 1]
    assert first.sampling == overrides.get("sampling_params", usual)
    events = server.drain(server.resume(turn, answer("c2")))
    assert outline(events).endswith("complete" if "max_infer_iters" in overrides else "awaiting")


def test_a_turns_overrides_end_with_it(serve: Serve) -> None:
    server = serve(["Arr.", "Yes."])
    ref = server.session(instructions="Be brief.")
    server.whole_turn(ref, instructions="Speak like a pirate.")
    server.whole_turn(ref)
    assert contents(server.inference.requests[1].messages)[0] == "Be brief."


def test_a_turn_can_be_read_while_it_runs_while_it_waits_and_afterwards(serve: Serve) -> None:
    thinking, seen = Held(CLIENT_CALL), Held("A door.")
    server = serve([ROLL, thinking, seen], DICE)
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    broadcast = server.start(ref)
    turn = broadcast.ref

    def read(expected_steps: int) -> Turn:
        shown = server.reader.read(LOCAL_CALLER, turn).turn
        assert shown_turns(server, ref) == [shown]
        assert [server.reader.read(LOCAL_CALLER, turn).step(step.step_id) for step in shown.steps] == list(shown.steps)
        assert expected_steps == len(shown.steps)
        return shown

    thinking.wait()
    running = read(2)
    assert (running.completed_at, running.output_message.content) == (None, "")
    thinking.open()
    server.drain(broadcast)
    waiting = read(3)
    assert (waiting.completed_at, waiting.output_message.tool_calls) == (None, (CLIENT_CALL,))
    resumed = server.resume(turn, answer("c2"))
    seen.wait()
    running = read(4)
    assert (running.completed_at, running.output_message.tool_calls) == (None, ())
    seen.open()
    server.drain(resumed)
    ended = read(5)
    assert (is_about(ended.completed_at, server.clock.now()), ended.output_message.content) == (True, "A door.")
    assert ended.steps[:2] == running.steps[:2]
    with pytest.raises(NotFound):
        server.reader.read(LOCAL_CALLER, turn).step("no such step")


@pytest.mark.parametrize("at", ["the turn", "the session"])
def test_a_reader_never_sees_fewer_steps_than_were_published(serve: Serve, at: str) -> None:
    """The turn ends, and its step records are discarded, between a reader's two reads."""
    thinking = Held("Four.")
    server = serve([ROLL, thinking], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    thinking.wait()
    reader = server.another()

    def end_the_turn() -> None:
        thinking.open()
        server.drain(broadcast)

    reader.store.after(reads("turn:"), end_the_turn)
    shown = reader.reader.read(LOCAL_CALLER, broadcast.ref).turn if at == "the turn" else shown_turns(reader, ref)[0]
    assert len(shown.steps) >= 2


def test_unknown_sessions_and_turns_are_not_found(serve: Serve) -> None:
    server = serve(["hello"])
    ref = server.session()
    broadcast = server.start(ref)
    server.drain(broadcast)
    stranger = ref.model_copy(update={"tenant": "another"})
    for nowhere in (stranger, ref.model_copy(update={"session_id": "x"}), ref.model_copy(update={"agent_id": "x"})):
        with pytest.raises(NotFound):
            server.start(nowhere)
        with pytest.raises(NotFound):
            server.reader.read(LOCAL_CALLER, nowhere.turn(broadcast.ref.turn_id))
        with pytest.raises(NotFound):
            server.core.sessions.read(LOCAL_CALLER, nowhere, None)
    with pytest.raises(NotFound):
        server.reader.read(LOCAL_CALLER, ref.turn("x"))


def test_the_model_sees_the_whole_history_in_order_while_it_fits(serve: Serve) -> None:
    server = serve([f"answer {number}" for number in range(40)])
    ref = server.session(instructions="Be brief.")
    for number in range(40):
        server.whole_turn(ref, f"question {number}")
    texts = [text for number in range(40) for text in (f"question {number}", f"answer {number}")]
    assert contents(server.inference.requests[-1].messages) == ["Be brief.", *texts[:-1]]
    server.assert_whole(ref)


def test_a_small_budget_cuts_the_oldest_turns_first(serve: Serve) -> None:
    server = serve([f"{number:03}" + "a" * 397 for number in range(30)], context_tokens=1_300)
    ref = server.session(instructions="Be brief.")
    for number in range(30):
        server.whole_turn(ref, f"{number:03}" + "q" * 397)
    shown = [text[:3] for text in contents(server.inference.requests[-1].messages)]
    assert shown == ["Be ", *[f"{number:03}" for number in range(24, 29) for _ in range(2)], "029"]


def test_a_large_budget_is_filled_however_many_pages_the_log_has(serve: Serve) -> None:
    """A page of the store ends after a megabyte, long before a large model's context window is full."""
    turns, randomness = 400, random.Random(1)
    server = serve(["ok"], context_tokens=1_000_000)
    ref = server.session()
    texts = [b64encode(randomness.randbytes(2_950)).decode() for _ in range(turns)]
    turns_messages = [(UserMessage(content=text),) for text in texts]
    entries = [
        Entry(order=f"{n}", tokens=tokens_of(messages), messages=messages) for n, messages in enumerate(turns_messages)
    ]
    writes = [put_segment(ref, Segment(number=n, entries=(entry,))) for n, entry in enumerate(entries)]
    for first in range(0, turns, 100):
        server.records.write(writes[first : first + 100])
    server.whole_turn(ref, "and now?")
    assert turns + 1 == len(server.inference.requests[-1].messages)


def test_the_last_turn_alone_is_cut_when_it_is_larger_than_the_budget(serve: Serve) -> None:
    server = serve(["short", calls(call("roll", "a"), text="q" * 2_000), "e" * 400, "next"], DICE, context_tokens=600)
    ref = server.session(toolgroups=["dice"])
    server.whole_turn(ref, "forgotten")
    server.whole_turn(ref, "large")
    server.whole_turn(ref, "and now?")
    assert contents(server.inference.requests[-1].messages) == ["e" * 400, "and now?"]


@pytest.mark.parametrize("has_history", [False, True])
def test_a_turn_larger_than_the_whole_budget_is_shown_without_history(serve: Serve, has_history: bool) -> None:
    server = serve(["earlier answer", "a summary"] if has_history else ["a summary"], context_tokens=300)
    ref = server.session()
    if has_history:
        server.whole_turn(ref, "earlier question")
    events = server.whole_turn(ref, "x" * 2_000)
    assert outline(events) == "start S:infer P C:infer complete"
    assert contents(server.inference.requests[-1].messages) == ["x" * 2_000]
    server.assert_whole(ref)


def complete(server: Harness, ref: SessionRef, text: str) -> None:
    server.whole_turn(ref, text)


def resume(server: Harness, ref: SessionRef, text: str) -> None:
    server.drain(server.resume(server.paused(ref, text), answer("c2", text)))


def expire(server: Harness, ref: SessionRef, text: str) -> None:
    server.paused(ref, text)
    server.clock.advance(AWAIT_S)
    server.reconcile_due()


def leave_waiting(server: Harness, ref: SessionRef, text: str) -> None:
    server.paused(ref, text)


FAILURE = ModelFailed("no")
LIVES: dict[str, tuple[list[Scripted], Callable[[Harness, SessionRef, str], None]]] = {
    "completed": (["fine"], complete),
    "completed with a tool": ([ROLL, "four"], complete),
    "failed": ([FAILURE], complete),
    "resumed": ([CLIENT_CALL, "a door"], resume),
    "superseded": ([CLIENT_CALL], leave_waiting),
    "failed after steps": ([calls(ROLL, text="well"), FAILURE], complete),
    "expired": ([calls(CLIENT_CALL, ROLL)], expire),
    "at the limit": ([ROLL, ROLL, ROLL], complete),
    "superseded after steps": ([ROLL, CLIENT_CALL], leave_waiting),
    "cut off": ([ScriptedReply(texts=("I was",), calls=(ROLL,), is_cut_off=True)], complete),
}
ROUNDS = 4
TURNS = ROUNDS * len(LIVES)
MEDIUM, LARGE = range(5, TURNS, 7), (11, 23, 34)


def size_of(number: int) -> int:
    return 800_000 if number in LARGE else 6_000 if number in MEDIUM else 40


def test_the_log_equals_the_one_derived_from_the_turns_after_a_mixed_life(serve: Serve, tmp_path: Path) -> None:
    script = [reply for _ in range(ROUNDS) for replies, _ in LIVES.values() for reply in replies]
    server = serve([*script, "the end"], DICE, context_tokens=2_000_000)
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()], max_infer_iters=3)
    randomness = random.Random(1)
    for number in range(TURNS):
        _, live = list(LIVES.values())[number % len(LIVES)]
        live(server, ref, randomness.randbytes(size_of(number) // 2).hex())
        server.assert_whole(ref)
    states = server.states(ref)
    assert {state.status for state in states} == set(TurnStatus) - {TurnStatus.IN_PROGRESS, TurnStatus.AWAITING_INPUT}
    assert len(states) == TURNS
    entries = [entry for segment in server.segments(ref) for entry in segment.entries]
    assert len(MEDIUM) + len(LARGE) <= sum(entry.messages is None for entry in entries) < TURNS
    assert len(list((tmp_path / "blobs").glob("*/*"))) >= len(LARGE)

    server.whole_turn(ref, "and now?")
    ended = [message for state in states for message in ended_messages(state)]
    assert (*ended, UserMessage(content="and now?")) == server.inference.requests[-1].messages


def test_the_step_of_a_clients_tool_lasts_from_the_pause_to_its_answer(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "a door"])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    began = server.clock.now()
    server.clock.advance(60)
    server.drain(server.resume(turn, answer("c2")))
    step = server.state(turn).turn.steps[1]
    assert (step.step_type, step.turn_id) == ("tool_execution", turn.turn_id)
    assert step.started_at > server.state(turn).turn.steps[0].completed_at
    assert is_about(step.started_at, began)
    assert is_about(step.completed_at, server.clock.now())


@pytest.mark.parametrize("count", [1, MAX_OPERATIONS, 2 * MAX_OPERATIONS + 1])
def test_the_records_of_steps_are_removed_in_as_few_writes_as_take_them(serve: Serve, count: int) -> None:
    server = serve()
    ref = server.session()
    for number in range(count):
        server.records.write([Put(step_key(ref, "t", number), b"{}")])
    before = len(server.store.calls)
    server.core.turn_store.discard_steps(ref, "t", count)
    writes = [len(done.operations) for done in server.store.calls[before:] if done.verb == "write"]
    assert writes == [*[MAX_OPERATIONS] * (count // MAX_OPERATIONS), *[1] * (count % MAX_OPERATIONS)]
    assert not all_records(server.records, steps_of_turn(ref, "t"))


def test_tool_messages_that_answer_nothing_are_refused_where_they_stand(serve: Serve) -> None:
    server = serve([CLIENT_CALL])
    ref = server.session(client_tools=[client_tool()])
    response = ToolResponseMessage(call_id="c2", content="a door")
    with pytest.raises(CallsMismatch) as refused:
        server.start(ref, [response])
    assert (refused.value.location, str(refused.value)) == (
        ("messages",),
        "messages: no turn of this session awaits tool responses; send a user message",
    )
    with pytest.raises(InvalidRequest) as mixed:
        server.start(ref, [response, UserMessage(content="and now?")])
    assert mixed.value.location == ("messages",)
    assert "can't be sent in one turn" in str(mixed.value)


@pytest.mark.parametrize(
    ("responses", "reason"),
    [
        ((answer("c2"), answer("c2")), "tool_responses: a call is answered twice; answer each once"),
        (
            (answer("c2"), answer("c9")),
            "tool_responses: no pending call has the id 'c9'; read the turn for those that are",
        ),
        ((), "tool_responses: the pending call 'c2' is not answered; answer all in one request"),
    ],
)
def test_answers_to_other_calls_than_those_that_wait_are_refused_with_the_reason(
    serve: Serve, responses: tuple[ToolResponse, ...], reason: str
) -> None:
    server = serve([CLIENT_CALL])
    turn = server.paused(server.session(client_tools=[client_tool()]))
    with pytest.raises(CallsMismatch) as refused:
        server.resume(turn, *responses)
    assert (refused.value.location, str(refused.value)) == (("tool_responses",), reason)
    assert server.state(turn).status is TurnStatus.AWAITING_INPUT
