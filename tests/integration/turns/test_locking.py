"""At most one turn of a session is open under concurrent requests, and a refused request changes nothing.

Covers: services/turns/turns, services/turns/transitions, store/sessions/sessions
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls
from tests.support.engine.harness import (
    AWAIT_S,
    Gate,
    Harness,
    Held,
    answer,
    client_tool,
    contents,
    discards_steps,
    drained_events,
    eventually,
    finished_steps,
    opens_turn,
    outline,
    puts_turn,
    reads,
    resumes_turn,
    serving,
    together,
)
from turnstone.domain.errors import (
    CallsMismatch,
    InvalidRequest,
    NotFound,
    Overloaded,
    StoreUnavailable,
    TurnNotAwaiting,
    TurnRunning,
    Unsupported,
)
from turnstone.domain.messages.messages import ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import TurnFailed
from turnstone.domain.turns.turns import TurnStatus
from turnstone.services.streams.broadcast import TurnBroadcast

Serve = Callable[..., Harness]
CLIENT_CALL = call("look", "c1")
RIVALS = 4
ROUNDS = 15
DICE = {"dice": {"roll": lambda arguments: "4"}}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def kinds(results: list[object]) -> list[str]:
    return sorted(type(result).__name__ for result in results)


def tool_message(call_id: str, content: str = "seen") -> ToolResponseMessage:
    return ToolResponseMessage(call_id=call_id, content=content)


def waiting(serve: Serve, *more: object) -> tuple[Harness, SessionRef, TurnRef]:
    """Return a server with a turn that waits for the answer to call c1."""
    server = serve([CLIENT_CALL, *more])
    ref = server.session(client_tools=[client_tool()])
    return server, ref, server.paused(ref)


def test_a_second_turn_is_refused_while_the_first_runs(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking, "ok"])
    ref, other = server.session(), server.session()
    running = server.start(ref)
    thinking.wait()
    before = server.dump()
    with pytest.raises(TurnRunning) as refused:
        server.start(ref)
    assert (refused.value.turn_id, before) == (running.ref.turn_id, server.dump())
    assert outline(drained_events(server.start(other))).endswith("complete")
    thinking.open()
    server.drain(running)
    server.assert_whole(ref)


def test_of_turns_at_once_exactly_one_opens(serve: Serve) -> None:
    gates = [Held() for _ in range(ROUNDS)]
    server = serve(gates)
    ref = server.session()
    for gate in gates:
        results = together(*[lambda: server.start(ref)] * RIVALS)
        assert kinds(results) == ["TurnBroadcast", *["TurnRunning"] * (RIVALS - 1)]
        gate.open()
        (opened,) = [result for result in results if isinstance(result, TurnBroadcast)]
        server.drain(opened)
    assert len(server.states(ref)) == ROUNDS
    server.assert_whole(ref)


def test_of_turns_at_once_in_two_processes_exactly_one_opens(serve: Serve) -> None:
    gates = [Held() for _ in range(ROUNDS)]
    remaining = iter(gates)
    script = [lambda request: next(remaining)(request)] * ROUNDS
    first = serve(script)
    servers = (first, first.another(script))
    ref = first.session()
    for gate in gates:
        results = together(*[lambda server=server: server.start(ref) for server in servers])
        assert kinds(results) == ["TurnBroadcast", "TurnRunning"]
        gate.open()
        for server, result in zip(servers, results, strict=True):
            if isinstance(result, TurnBroadcast):
                server.drain(result)
    first.assert_whole(ref)


def test_a_turn_that_opens_before_anothers_write_wins(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking, "never"])
    ref = server.session()
    first: list[TurnBroadcast] = []
    late = server.another(["never"])
    late.store.before(opens_turn, lambda: first.append(server.start(ref)))
    with pytest.raises(TurnRunning):
        late.start(ref)
    thinking.open()
    assert outline(server.drain(first[0])).endswith("complete")
    assert len(server.states(ref)) == 1
    server.assert_whole(ref)


def test_a_new_turn_supersedes_a_paused_one_in_its_opening_write(serve: Serve) -> None:
    server, ref, old = waiting(serve, "Something else.")
    first_call = len(server.store.calls)
    new = server.start(ref, "never mind")
    assert outline(server.drain(new)) == "start S:infer P C:infer complete"
    (opening,) = [call for call in server.store.calls[first_call:] if opens_turn(call)]
    assert puts_turn(TurnStatus.CANCELLED)(opening)
    state = server.state(old)
    assert (state.status, len(state.turn.steps), state.pending_calls) == (TurnStatus.CANCELLED, 1, ())
    assert state.turn.output_message.tool_calls == ()
    assert contents(server.inference.requests[-1].messages) == [
        "look",
        "",
        "Not executed: the user went on with something else.",
        "never mind",
    ]
    before = server.dump()
    with pytest.raises(TurnNotAwaiting) as refused:
        server.resume(old, answer("c1"))
    assert (refused.value.status, before) == ("cancelled", server.dump())
    server.assert_whole(ref)


def test_tool_responses_as_a_new_turns_messages_resume_the_waiting_turn(serve: Serve) -> None:
    server = serve([calls(CLIENT_CALL, call("listen", "c2")), "A door."])
    ref = server.session(client_tools=[client_tool(), client_tool("listen")])
    turn = server.paused(ref)
    resumed = server.start(ref, [tool_message("c2", "steps"), tool_message("c1", "a door")])
    assert turn == resumed.ref
    events = server.drain(resumed)
    assert outline(events) == "C:tool S:infer P C:infer complete"
    (step, _) = finished_steps(events)
    assert [(r.call_id, r.tool_name, r.content) for r in step.tool_responses] == [
        ("c1", "look", "a door"),
        ("c2", "listen", "steps"),
    ]
    assert len(server.states(ref)) == 1
    server.assert_whole(ref)


def test_tool_responses_to_a_call_that_was_not_made_change_nothing(serve: Serve) -> None:
    server, ref, _ = waiting(serve)
    idle = server.session()
    before = server.dump()
    for messages in ([tool_message("x")], [tool_message("c1"), tool_message("x")], [tool_message("c1")] * 2):
        for session in (ref, idle):
            with pytest.raises(CallsMismatch):
                server.start(session, messages)
    assert before == server.dump()


def test_tool_responses_while_a_turn_runs_change_nothing(serve: Serve) -> None:
    thinking = Held()
    server, ref, turn = waiting(serve, thinking)
    resumed = server.resume(turn, answer("c1"))
    thinking.wait()
    before = server.dump()
    with pytest.raises(CallsMismatch):
        server.start(ref, [tool_message("c1")])
    assert before == server.dump()
    thinking.open()
    server.drain(resumed)


def test_tool_responses_and_user_messages_in_one_turn_are_refused(serve: Serve) -> None:
    server, ref, _ = waiting(serve)
    before = server.dump()
    with pytest.raises(InvalidRequest):
        server.start(ref, [tool_message("c1"), UserMessage(content="and?")])
    assert before == server.dump()


@pytest.mark.parametrize(
    "responses",
    [
        [],
        [answer("c1")],
        [answer("c1"), answer("x")],
        [answer("c1"), answer("c2"), answer("x")],
        [answer("c1"), answer("c1")],
        [answer("c1"), answer("c2"), answer("c2")],
    ],
    ids=["none", "missing", "wrong", "one too many", "twice and missing", "twice"],
)
def test_responses_must_be_exactly_those_to_the_pending_calls(serve: Serve, responses: list[ToolResponse]) -> None:
    server = serve([calls(CLIENT_CALL, call("look", "c2")), "done"])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    before = server.dump()
    with pytest.raises(CallsMismatch):
        server.resume(turn, *responses)
    assert before == server.dump()
    assert outline(server.drain(server.resume(turn, answer("c2"), answer("c1")))).endswith("complete")


def test_of_resumes_at_once_exactly_one_wins(serve: Serve) -> None:
    gates = [Held() for _ in range(ROUNDS)]
    server = serve([reply for gate in gates for reply in (CLIENT_CALL, gate)])
    ref = server.session(client_tools=[client_tool()])
    for gate in gates:
        turn = server.paused(ref)
        results = together(*[lambda turn=turn: server.resume(turn, answer("c1"))] * RIVALS)
        assert kinds(results) == ["TurnBroadcast", *["TurnNotAwaiting"] * (RIVALS - 1)]
        gate.open()
        (resumed,) = [result for result in results if isinstance(result, TurnBroadcast)]
        assert outline(server.drain(resumed)) == "C:tool S:infer P C:infer complete"
        assert len(server.state(turn).turn.steps) == 3
    server.assert_whole(ref)


def test_a_resume_that_comes_before_another_resumes_write_wins(serve: Serve) -> None:
    thinking = Held("done")
    server, ref, turn = waiting(serve, thinking)
    first: list[TurnBroadcast] = []
    late = server.another(["never"])
    late.store.before(resumes_turn, lambda: first.append(server.resume(turn, answer("c1"))))
    with pytest.raises(TurnNotAwaiting) as refused:
        late.resume(turn, answer("c1", "otherwise"))
    assert refused.value.status == "in_progress"
    thinking.open()
    assert outline(server.drain(first[0])).endswith("complete")
    assert len(server.state(turn).turn.steps) == 3
    assert late.inference.requests == []
    server.assert_whole(ref)


def test_of_a_resume_and_a_new_turn_at_once_exactly_one_wins(serve: Serve) -> None:
    gates = [Held() for _ in range(ROUNDS)]
    server = serve([reply for gate in gates for reply in (CLIENT_CALL, gate)])
    ref = server.session(client_tools=[client_tool()])
    for gate in gates:
        turn = server.paused(ref)
        results = together(lambda turn=turn: server.resume(turn, answer("c1")), lambda: server.start(ref))
        assert kinds(results) in (["TurnBroadcast", "TurnRunning"], ["TurnBroadcast", "TurnNotAwaiting"])
        gate.open()
        (winner,) = [result for result in results if isinstance(result, TurnBroadcast)]
        server.drain(winner)
        was_resumed = winner.ref == turn
        assert server.state(turn).status is (TurnStatus.COMPLETED if was_resumed else TurnStatus.CANCELLED)
        server.assert_whole(ref)


def test_a_new_turn_that_comes_before_a_resumes_write_wins(serve: Serve) -> None:
    thinking = Held()
    server, ref, turn = waiting(serve, thinking)
    new: list[TurnBroadcast] = []
    server.store.before(resumes_turn, lambda: new.append(server.start(ref)))
    with pytest.raises(TurnNotAwaiting) as refused:
        server.resume(turn, answer("c1"))
    assert refused.value.status == "cancelled"
    thinking.open()
    server.drain(new[0])
    server.assert_whole(ref)


def test_a_resume_that_comes_before_a_new_turns_write_wins(serve: Serve) -> None:
    thinking = Held()
    server, ref, turn = waiting(serve, thinking)
    resumed: list[TurnBroadcast] = []
    server.store.before(opens_turn, lambda: resumed.append(server.resume(turn, answer("c1"))))
    with pytest.raises(TurnRunning):
        server.start(ref)
    thinking.open()
    assert outline(server.drain(resumed[0])).endswith("complete")
    assert len(server.states(ref)) == 1
    server.assert_whole(ref)


@pytest.mark.parametrize("is_backwards", [False, True])
def test_a_resume_that_reads_turn_and_lock_at_different_moments_takes_no_foreign_lock(
    serve: Serve, is_backwards: bool
) -> None:
    thinking = Held()
    server, ref, turn = waiting(serve, thinking)
    late = server.another()
    late.store.is_backwards = is_backwards
    new: list[TurnBroadcast] = []
    first_read = "ctx:" if is_backwards else "turn:"
    late.store.after(reads(first_read), lambda: new.append(server.start(ref)))
    with pytest.raises(TurnNotAwaiting):
        late.resume(turn, answer("c1"))
    thinking.open()
    assert outline(server.drain(new[0])).endswith("complete")
    server.assert_whole(ref)


def test_a_finished_turn_is_not_resumed(serve: Serve) -> None:
    server, _, turn = waiting(serve, "done")
    server.drain(server.resume(turn, answer("c1")))
    before = server.dump()
    with pytest.raises(TurnNotAwaiting) as refused:
        server.resume(turn, answer("c1"))
    assert (refused.value.status, before) == ("completed", server.dump())


def test_a_running_turn_is_not_resumed(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking])
    running = server.start(server.session())
    thinking.wait()
    with pytest.raises(TurnNotAwaiting) as refused:
        server.resume(running.ref, answer("c1"))
    assert refused.value.status == "in_progress"
    thinking.open()
    server.drain(running)


def test_unknown_and_foreign_turns_are_not_resumed(serve: Serve) -> None:
    server, ref, turn = waiting(serve)
    sibling = server.session(ref.agent_id)
    stranger = server.session()
    before = server.dump()
    for wrong in (
        ref.turn("x"),
        sibling.turn(turn.turn_id),
        stranger.turn(turn.turn_id),
        turn.model_copy(update={"agent_id": stranger.agent_id}),
        turn.model_copy(update={"tenant": "another"}),
    ):
        with pytest.raises(NotFound):
            server.resume(wrong, answer("c1"))
    assert before == server.dump()


def test_over_capacity_nothing_is_stored(serve: Serve) -> None:
    thinking = Held()
    server = serve([CLIENT_CALL, thinking, "ok", "ok"], max_running_turns=1)
    ref, other = server.session(client_tools=[client_tool()]), server.session()
    paused = server.paused(ref)
    running = server.start(other)
    thinking.wait()
    before = server.dump()
    with pytest.raises(Overloaded):
        server.start(ref)
    with pytest.raises(Overloaded):
        server.resume(paused, answer("c1"))
    assert before == server.dump()
    thinking.open()
    server.drain(running)
    assert outline(server.drain(server.resume(paused, answer("c1")))).endswith("complete")


def test_a_slot_is_released_when_a_turn_does_not_start(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "new", *["ok"] * 9], max_running_turns=1)
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)

    def fail() -> None:
        raise StoreUnavailable("gone")

    def refused(action: Callable[[], object], error: type[Exception]) -> None:
        with pytest.raises(error):
            action()

    server.store.before(resumes_turn, fail)
    refused(lambda: server.resume(turn, answer("c1")), StoreUnavailable)
    refused(lambda: server.resume(turn, answer("x")), CallsMismatch)
    refused(lambda: server.resume(ref.turn("x"), answer("c1")), NotFound)
    refused(lambda: server.start(ref, toolgroups=["nothing"]), Unsupported)
    server.store.before(opens_turn, fail)
    refused(lambda: server.start(ref), StoreUnavailable)
    rival = server.another(["ok"])
    server.store.before(resumes_turn, lambda: rival.whole_turn(ref, "faster"))
    refused(lambda: server.resume(turn, answer("c1")), TurnNotAwaiting)
    assert outline(server.whole_turn(ref)).endswith("complete")
    server.assert_whole(ref)


def test_a_slot_is_released_however_a_turn_ends(serve: Serve) -> None:
    server = serve(
        [ScriptedReply(error=RuntimeError("a bug")), ScriptedReply(error=StoreUnavailable("gone")), "ok"],
        max_running_turns=1,
    )
    assert outline(server.whole_turn(server.session())).endswith("failed:internal")
    server.whole_turn(server.session())
    assert outline(server.whole_turn(server.session())).endswith("complete")


def test_a_crash_that_can_not_be_stored_is_published_and_left_to_the_supervisor(serve: Serve) -> None:
    server = serve([ScriptedReply(error=RuntimeError("a bug"))])

    def unavailable() -> None:
        raise StoreUnavailable("not now")

    server.store.before(puts_turn(TurnStatus.FAILED), unavailable)
    broadcast = server.start(server.session())
    failed = server.drain(broadcast)[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.turn_id, failed.failure.kind) == (broadcast.ref.turn_id, "internal")
    assert failed.failure.message == f"turn {broadcast.ref.turn_id!r} failed: internal server error"
    assert list(server.supervisor.watched) == [broadcast.ref]
    assert server.state(broadcast.ref).status is TurnStatus.IN_PROGRESS


def test_a_caller_that_received_the_end_finds_a_slot_for_the_next_turn(serve: Serve) -> None:
    """Cleaning up after a turn is no reason to refuse the next one."""
    tidying = Gate()
    server = serve([call("roll", "a"), "ok", "ok"], DICE, max_running_turns=1)
    ref = server.session(toolgroups=["dice"])
    server.store.before(discards_steps, tidying.pass_through)
    first = server.start(ref)
    tidying.wait()
    eventually(lambda: first.is_over)
    try:
        following = server.start(ref)
    finally:
        tidying.open()
    assert outline(server.drain(following)).endswith("complete")


def test_a_session_under_endless_contention_is_refused_as_retryable(serve: Serve) -> None:
    server = serve(["ok"])
    ref = server.session()
    rival = server.another(["ok"] * 20)
    server.store.before(opens_turn, lambda: rival.whole_turn(ref), times=20)
    with pytest.raises(StoreUnavailable):
        server.start(ref)
    server.assert_whole(ref)


def test_the_turn_that_crashed_by_a_bug_leaves_the_session_usable(serve: Serve) -> None:
    server = serve([call("roll", "a"), ScriptedReply(error=RuntimeError("a bug")), "ok"], DICE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref)
    assert outline(server.drain(broadcast)) == "start S:infer P C:infer S:tool P C:tool S:infer failed:internal"
    state = server.state(broadcast.ref)
    assert (state.status, len(state.turn.steps)) == (TurnStatus.FAILED, 2)
    assert outline(server.whole_turn(ref)).endswith("complete")
    server.assert_whole(ref)


def test_turns_keep_their_order_when_the_clock_goes_back(serve: Serve) -> None:
    server = serve([str(number) for number in range(5)])
    ref = server.session()
    for _ in range(5):
        server.whole_turn(ref)
        server.clock.advance(-60)
    assert [state.turn.output_message.content for state in server.states(ref)] == ["0", "1", "2", "3", "4"]


def test_a_resume_by_messages_after_the_deadline_is_refused(serve: Serve) -> None:
    server, ref, turn = waiting(serve)
    server.clock.advance(AWAIT_S)
    with pytest.raises(TurnNotAwaiting) as refused:
        server.start(ref, [tool_message("c1")])
    assert (refused.value.status, server.state(turn).status) == ("expired", TurnStatus.EXPIRED)
    server.assert_whole(ref)


def test_a_call_is_answered_by_its_id_and_recorded_under_its_name(serve: Serve) -> None:
    server, _, turn = waiting(serve, "done")
    server.drain(server.resume(turn, answer("c1", tool_name="another")))
    names = [r.tool_name for step in server.state(turn).turn.steps for r in getattr(step, "tool_responses", ())]
    assert names == ["look"]
