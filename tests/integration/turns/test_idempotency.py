"""A repeated request has no second effect, however it is recognised and however the first one ended.

Covers: services/turns/joining, store/layout/idempotency
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from tests.fakes.models.scripted import Reply, ScriptedReply, call
from tests.support.engine.harness import (
    LEASE_S,
    PATIENCE_S,
    Harness,
    Held,
    Matches,
    answer,
    attempt,
    call_number,
    client_tool,
    completes_turn,
    drained_events,
    eventually,
    finished_steps,
    nth,
    opens_turn,
    outline,
    pauses_turn,
    reads,
    resumes_turn,
    saves_step,
    serving,
    together,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import (
    Conflict,
    IdempotencyMismatch,
    ModelFailed,
    StoreUnavailable,
    TurnNotAwaiting,
    TurnRunning,
)
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import TurnStatus
from turnstone.http.errors import error_reply
from turnstone.services.streams.broadcast import Received, TurnBroadcast
from turnstone.services.threads.publisher import Subscriber
from turnstone.store.layout.idempotency import KEPT

Serve = Callable[..., Harness]
CLIENT_CALL = call("look", "c1")
ROLL = call("roll", "c2")
DICE = {"dice": {"roll": lambda arguments: "4"}}
KEY = attempt("body", key="key")
OTHER_BODY = attempt("other body", key="key")
FIRST = attempt("body")
AGAIN = attempt("body", is_retry=True)
DAY_S = KEPT / timedelta(seconds=1)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def unavailable() -> None:
    raise StoreUnavailable("the answer was lost")


def creating(server: Harness, what: str) -> Callable[..., str]:
    """Return a function that creates an agent, or a session of one agent."""
    application = server.core
    if what == "agent":
        config = AgentConfig(model="scripted", instructions="")
        return lambda by: application.agents.create(LOCAL_CALLER, config, by)
    agent_id = server.agent()
    return lambda by: application.sessions.create(LOCAL_CALLER, agent_id, "a session", by)


@pytest.mark.parametrize("what", ["agent", "session"])
def test_a_key_creates_one_thing_a_day(serve: Serve, what: str) -> None:
    server = serve()
    create = creating(server, what)
    created = create(KEY)
    before = server.dump()
    assert created == create(KEY) == create(attempt("body", key="key", is_retry=True))
    with pytest.raises(IdempotencyMismatch):
        create(OTHER_BODY)
    assert before == server.dump()
    assert created != create(attempt("body", key="another key"))
    assert create(attempt("body")) != create(attempt("body"))
    server.clock.advance(DAY_S - 1)
    assert created == create(KEY)
    server.clock.advance(1)
    new = create(OTHER_BODY)
    assert new not in (created, create(attempt("x")))
    assert new == create(OTHER_BODY)


@pytest.mark.parametrize("what", ["agent", "session"])
@pytest.mark.parametrize("is_over", [False, True], ids=["new key", "key of yesterday"])
def test_of_creations_at_once_with_one_key_there_is_one(serve: Serve, what: str, is_over: bool) -> None:
    server = serve()
    create = creating(server, what)
    for number in range(8):
        by = attempt("body", key=f"key {number}")
        if is_over:
            old = create(by)
            server.clock.advance(DAY_S)
        created = together(*[lambda by=by: create(by)] * 4)
        assert len(set(map(str, created))) == 1, created
        assert not is_over or created[0] != old


@pytest.mark.parametrize("what", ["agent", "session"])
def test_a_creation_that_loses_the_race_for_a_new_key_gets_the_winners_answer(serve: Serve, what: str) -> None:
    server = serve()
    create = creating(server, what)
    winner: list[str] = []
    server.store.before(lambda call: call.verb == "write", lambda: winner.append(create(KEY)))
    loser = create(KEY)
    assert winner == [loser]


@pytest.mark.parametrize("what", ["agent", "session"])
def test_a_creation_that_loses_the_race_for_yesterdays_key_gets_the_winners_answer(serve: Serve, what: str) -> None:
    server = serve()
    create = creating(server, what)
    create(KEY)
    server.clock.advance(DAY_S)
    winner: list[str] = []
    second_write = len(server.store.calls) + 2
    server.store.before(call_number(second_write), lambda: winner.append(create(KEY)))
    try:
        loser = create(KEY)
    except Conflict as conflict:
        pytest.fail(f"a race of two identical requests became an internal error: {conflict}")
    assert winner == [loser]


def test_a_key_opens_one_turn(serve: Serve) -> None:
    server = serve(["one", "two"])
    ref = server.session()
    first = server.start(ref, by=KEY)
    events = server.drain(first)
    before = server.dump()
    again = server.start(ref, by=KEY)
    assert (again.ref, outline(server.drain(again))) == (first.ref, outline(events))
    with pytest.raises(IdempotencyMismatch):
        server.start(ref, by=OTHER_BODY)
    assert before == server.dump()
    server.clock.advance(DAY_S)
    assert server.drain(server.start(ref, by=OTHER_BODY))
    assert len(server.states(ref)) == 2
    assert server.start(ref, by=OTHER_BODY).ref.turn_id == server.states(ref)[1].turn_id
    server.assert_whole(ref)


def test_a_key_resumes_a_turn_once(serve: Serve) -> None:
    thinking = Held(CLIENT_CALL)
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    resumed = server.resume(turn, answer("c1"), by=KEY)
    thinking.wait()
    joined = server.resume(turn, answer("c1"), by=KEY)
    with pytest.raises(IdempotencyMismatch):
        server.resume(turn, answer("c1", "otherwise"), by=OTHER_BODY)
    thinking.open()
    assert outline(server.drain(joined)).endswith(outline(server.drain(resumed)))
    again = outline(server.drain(server.resume(turn, answer("c1"), by=KEY)))
    assert (again, again.endswith("C:infer awaiting")) == (outline(server.drain(resumed)), True)
    assert len(server.state(turn).turn.steps) == 3
    server.assert_whole(ref)


def test_a_key_whose_turn_was_followed_by_others_still_finds_it(serve: Serve) -> None:
    server = serve(["one", "two", "three"])
    ref = server.session()
    first = server.start(ref, by=KEY)
    events = server.drain(first)
    server.whole_turn(ref)
    again = server.start(ref, by=attempt("body", key="key", is_retry=True))
    assert (first.ref, outline(events)) == (again.ref, outline(server.drain(again)))
    assert len(server.states(ref)) == 2


def test_a_repeated_opening_request_receives_a_resumed_turn_from_its_start(serve: Serve) -> None:
    thinking = Held("A door.")
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, by=KEY)
    resumed = server.resume(turn, answer("c1"))
    thinking.wait()
    joined = server.start(ref, "look", by=KEY)
    thinking.open()
    server.drain(resumed)
    assert outline(server.drain(joined)) == "start S:infer P C:infer C:tool S:infer P C:infer complete"


def test_a_caller_that_joins_a_resumed_turn_receives_the_past_before_the_present(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run continues in its own thread while the first events are taken but not yet forwarded."""
    thinking = Held(ScriptedReply(texts=("A ", "door.")))
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, by=KEY)
    resumed = server.resume(turn, answer("c1"))
    thinking.wait()
    take, is_first = Subscriber.take, iter([True])

    def taken_while_the_run_continues(listener: Subscriber) -> Received:
        news = take(listener)
        if next(is_first, False):
            thinking.open()
            with suppress(AssertionError):
                eventually(lambda: resumed.is_over, patience_s=0.3)
        return news

    monkeypatch.setattr(Subscriber, "take", taken_while_the_run_continues)
    joined = server.start(ref, "look", by=KEY)
    monkeypatch.undo()
    assert outline(server.drain(resumed)) == "C:tool S:infer P P C:infer complete"
    assert outline(server.drain(joined)) == "start S:infer P C:infer C:tool S:infer P P C:infer complete"


def test_of_requests_at_once_with_one_key_one_opens_and_the_others_join(serve: Serve) -> None:
    rounds = 10
    gates = [Held() for _ in range(rounds)]
    server = serve(gates)
    ref = server.session()
    for number, gate in enumerate(gates):
        by = attempt("body", key=f"key {number}")
        results = together(*[lambda by=by: server.start(ref, by=by)] * 4)
        gate.open()
        assert {type(result) for result in results} == {TurnBroadcast}, results
        assert {outline(server.drain(result)) for result in results} == {"start S:infer P C:infer complete"}
        assert len(server.states(ref)) == number + 1
    server.assert_whole(ref)


def test_a_request_that_reads_key_and_lock_at_different_moments_joins_too(serve: Serve) -> None:
    """The first request opened the turn after the second one read its key and before it read the lock."""
    thinking = Held()
    server = serve([thinking])
    ref = server.session()
    first: list[TurnBroadcast] = []
    late = server.another()
    late.store.after(reads("idempotency:"), lambda: first.append(server.start(ref, by=KEY)))
    try:
        joined = late.start(ref, by=KEY)
    except TurnRunning as refused:
        pytest.fail(f"the request was refused because of its own turn: {refused}")
    finally:
        thinking.open()
        server.drain(first[0])
    late.clock.advance(LEASE_S)
    late.reconcile_due()
    assert (joined.ref, outline(late.drain(joined))) == (first[0].ref, "start S:infer P C:infer complete")


@pytest.mark.parametrize("by", [KEY, AGAIN], ids=["key", "retry"])
@pytest.mark.parametrize("as_messages", [False, True], ids=["resume", "tool messages"])
def test_a_resume_that_comes_twice_at_the_worst_moment_joins_itself(
    serve: Serve, by: Attempt, as_messages: bool
) -> None:
    """The twin resumes the turn between two reads of this request, which finds no record of it, and a running turn."""
    thinking = Held("A door.")
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref)
    late, first = server.another(), list[TurnBroadcast]()

    def resume(at: Harness, by: Attempt) -> TurnBroadcast:
        if as_messages:
            return at.start(ref, [ToolResponseMessage(call_id="c1", content="seen")], by=by)
        return at.resume(turn, answer("c1"), by=by)

    late.store.is_backwards = True
    is_between = (
        (lambda call: call.verb == "gather") if as_messages else reads("ctx:" if by is AGAIN else "idempotency:")
    )
    late.store.after(is_between, lambda: first.append(resume(server, by.model_copy(update={"is_retry": False}))))
    try:
        joined = resume(late, by)
    except TurnNotAwaiting as refused:
        pytest.fail(f"the request was refused because of its own effect: {refused}")
    finally:
        thinking.open()
        server.drain(first[0])
    late.reconcile_after_leases()
    assert outline(late.drain(joined)).endswith("C:tool S:infer P C:infer complete")
    server.assert_whole(ref)


def test_a_caller_waiting_here_for_a_turn_paused_elsewhere_receives_all_of_it_when_it_is_resumed_here(
    serve: Serve,
) -> None:
    thinking = Held(CLIENT_CALL)
    server = serve([thinking])
    ref = server.session(client_tools=[client_tool()])
    broadcast = server.start(ref, by=FIRST)
    thinking.wait()
    second = server.another(["A door."])
    joined = second.start(ref, by=AGAIN)
    thinking.open()
    server.drain(broadcast)
    second.drain(second.resume(broadcast.ref, answer("c1")))
    second.reconcile_after_leases()
    assert outline(second.drain(joined)).startswith("start S:infer P C:infer")


def test_a_retry_joins_the_running_turn_from_its_first_event_on(serve: Serve) -> None:
    thinking = Held("You rolled 4.")
    server = serve([ROLL, thinking], DICE)
    ref = server.session(toolgroups=["dice"])
    first = server.start(ref, by=FIRST)
    thinking.wait()
    joined = server.start(ref, by=AGAIN)
    thinking.open()
    expected = "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"
    assert server.drain(first) == server.drain(joined)
    assert expected == outline(server.drain(joined))
    server.assert_whole(ref)


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        ("done", "complete"),
        (CLIENT_CALL, "awaiting"),
        (ModelFailed("no"), "failed:model_failed"),
        (ScriptedReply(error=RuntimeError("a bug")), "failed:internal"),
    ],
    ids=["finished", "awaiting", "failed", "crashed"],
)
def test_a_retry_of_an_ended_turn_receives_the_same_end(serve: Serve, reply: object, ending: str) -> None:
    server = serve([reply])
    ref = server.session(client_tools=[client_tool()])
    first = server.start(ref, by=FIRST)
    events = server.drain(first)
    before = server.dump()
    again = server.start(ref, by=AGAIN)
    received = server.drain(again)
    assert (again.ref, before) == (first.ref, server.dump())
    assert outline(received).endswith(ending)
    assert received[-1] == events[-1]
    assert finished_steps(received) == finished_steps(events)


def test_a_retry_with_another_body_is_a_request_of_its_own(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking, "two"])
    ref = server.session()
    first = server.start(ref, by=FIRST)
    thinking.wait()
    with pytest.raises(TurnRunning):
        server.start(ref, by=attempt("other body", is_retry=True))
    thinking.open()
    server.drain(first)
    assert server.start(ref, by=attempt("other body", is_retry=True)).ref != first.ref


def test_a_first_request_never_joins(serve: Serve) -> None:
    server = serve(["one", "two"])
    ref = server.session()
    assert server.start(ref, by=FIRST).ref is not None
    server.settle()
    server.drain(server.start(ref, by=FIRST))
    assert len(server.states(ref)) == 2


def test_a_retried_resume_joins_its_run(serve: Serve) -> None:
    thinking = Held("done")
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, by=attempt("opening"))
    resumed = server.resume(turn, answer("c1"), by=FIRST)
    thinking.wait()
    joined = server.resume(turn, answer("c1"), by=AGAIN)
    thinking.open()
    assert outline(server.drain(joined)).endswith(outline(server.drain(resumed)))
    assert outline(server.drain(server.resume(turn, answer("c1"), by=AGAIN))).endswith("complete")
    assert len(server.state(turn).turn.steps) == 3


def test_joining_a_turn_that_is_about_to_end_never_hangs(serve: Serve) -> None:
    rounds = 25
    gates = [Held() for _ in range(rounds)]
    server = serve(gates)
    for number, gate in enumerate(gates):
        ref = server.session()
        by, again = attempt(f"{number}"), attempt(f"{number}", is_retry=True)
        first = server.start(ref, by=by)
        gate.wait()
        opener = Thread(target=gate.open, daemon=True)
        opener.start()
        joined = together(*[lambda ref=ref, again=again: server.start(ref, by=again)] * 3)
        opener.join(PATIENCE_S)
        for broadcast in (first, *joined):
            assert outline(server.drain(broadcast)) == "start S:infer P C:infer complete"


def test_a_caller_that_reads_a_turn_before_its_end_and_subscribes_after_it_receives_the_end(serve: Serve) -> None:
    """The reader may have to wait for the supervisor, which checks the turn when its lease would be over."""
    thinking = Held("done")
    server = serve([thinking])
    ref = server.session()
    first = server.start(ref, by=FIRST)
    thinking.wait()
    other = server.another()

    def end() -> None:
        thinking.open()
        server.drain(first)

    other.store.after(reads("step:"), end)
    joined = other.start(ref, by=AGAIN)
    other.clock.advance(LEASE_S)
    other.reconcile_due()
    assert outline(other.drain(joined)) == "start S:infer P C:infer complete"


LIFE = "start S:infer P C:infer S:tool P C:tool S:infer P C:infer complete"


def rolling(request: InferenceRequest) -> Reply:
    """Answer by the last message, so that repeated model calls do not matter."""
    return ROLL if request.messages[-1].role == "user" else "You rolled 4."


@pytest.mark.parametrize(
    ("lost", "number"),
    [(opens_turn, 1), (saves_step, 1), (saves_step, 2), (completes_turn, 1)],
    ids=["opening", "first step", "second step", "close"],
)
@pytest.mark.parametrize("in_process", ["the same", "another"])
def test_when_the_answer_of_a_write_is_lost_nothing_is_done_twice(
    serve: Serve, lost: Matches, number: int, in_process: str
) -> None:
    server = serve([rolling] * 4, DICE)
    ref = server.session(toolgroups=["dice"])
    server.store.after(nth(number, lost), unavailable)
    published = ()
    try:
        published = finished_steps(server.drain(server.start(ref, by=FIRST)))
    except StoreUnavailable:
        assert lost is opens_turn
    server.settle()
    heir = server if in_process == "the same" else server.another([rolling] * 4, DICE)
    joined = heir.start(ref, by=AGAIN)
    heir.clock.advance(LEASE_S)
    heir.reconcile_due()
    events = heir.drain(joined)
    assert outline(events) == LIFE
    (state,) = heir.states(ref)
    assert state.status is TurnStatus.COMPLETED
    assert state.turn.steps == finished_steps(events)
    assert published == state.turn.steps[: len(published)]
    heir.assert_whole(ref)


@pytest.mark.parametrize("lost", [pauses_turn, resumes_turn], ids=["pause", "resume"])
def test_when_the_answer_of_a_pause_or_resume_is_lost_nothing_is_done_twice(serve: Serve, lost: Matches) -> None:
    server = serve([CLIENT_CALL, "A door.", "A door."])
    ref = server.session(client_tools=[client_tool()])
    server.store.after(lost, unavailable)
    broadcast = server.start(ref, by=attempt("opening"))
    server.drain(broadcast)
    retried = server.start(ref, by=attempt("opening", is_retry=True))
    assert outline(server.drain(retried)) == "start S:infer P C:infer awaiting"
    try:
        resumed = server.resume(broadcast.ref, answer("c1"), by=FIRST)
    except StoreUnavailable:
        resumed = server.resume(broadcast.ref, answer("c1"), by=AGAIN)
        server.clock.advance(LEASE_S)
        server.reconcile_due()
    assert outline(server.drain(resumed)).endswith("C:tool S:infer P C:infer complete")
    assert len(server.state(broadcast.ref).turn.steps) == 3
    server.assert_whole(ref)


@pytest.mark.parametrize("what", ["agent", "session"])
def test_when_the_answer_of_a_creation_is_lost_the_key_finds_it(serve: Serve, what: str) -> None:
    server = serve()
    create = creating(server, what)
    server.store.after(lambda call: bool(call.operations), unavailable)
    with pytest.raises(StoreUnavailable):
        create(KEY)
    before = server.dump()
    create(KEY)
    assert before == server.dump()


def test_a_superseding_turn_whose_answer_was_lost_is_joined(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "new", "new"])
    ref = server.session(client_tools=[client_tool()])
    old = server.paused(ref)
    server.store.after(opens_turn, unavailable)
    with pytest.raises(StoreUnavailable):
        server.start(ref, "never mind", by=FIRST)
    joined = server.start(ref, "never mind", by=AGAIN)
    server.clock.advance(LEASE_S)
    server.reconcile_due()
    assert outline(server.drain(joined)) == "start S:infer P C:infer complete"
    assert [state.status for state in server.states(ref)] == [TurnStatus.CANCELLED, TurnStatus.COMPLETED]
    assert joined.ref != old
    server.assert_whole(ref)
    assert outline(drained_events(server.start(ref, "never mind", by=AGAIN))).endswith("complete")
    eventually(lambda: len(server.states(ref)) == 2)


@pytest.mark.parametrize(("waited_s", "turns"), [(0, 1), (89, 1), (91, 2)])
def test_an_equal_message_long_after_a_turn_ended_opens_a_new_turn(serve: Serve, waited_s: float, turns: int) -> None:
    """The user sends "yes" a second time, and the first attempt never reached the server."""
    server = serve(["first", "second"])
    ref = server.session()
    server.drain(server.start(ref, by=FIRST))
    server.clock.advance(waited_s)
    events = server.drain(server.start(ref, by=AGAIN))
    assert outline(events).endswith("complete")
    assert len(server.states(ref)) == turns
    server.assert_whole(ref)


def test_a_late_retry_is_recognised_by_its_client_timeout(serve: Serve) -> None:
    """A client that waited for minutes before it tried again means the same request."""
    server = serve(["first", "second"])
    ref = server.session()
    server.drain(server.start(ref, by=FIRST))
    server.clock.advance(600)
    patient = AGAIN.model_copy(update={"repeated_within_s": 700})
    server.drain(server.start(ref, by=patient))
    assert len(server.states(ref)) == 1


def test_tool_messages_whose_key_is_read_before_their_own_effect_join_it(serve: Serve) -> None:
    """The twin resumes the turn after this request read its key and before it reads the lock."""
    thinking = Held("A door.")
    server = serve([CLIENT_CALL, thinking])
    ref = server.session(client_tools=[client_tool()])
    server.paused(ref)
    late, first = server.another(), list[TurnBroadcast]()
    responses = [ToolResponseMessage(call_id="c1", content="seen")]
    late.store.after(reads("idempotency:"), lambda: first.append(server.start(ref, responses, by=KEY)))
    joined = late.start(ref, responses, by=KEY)
    thinking.open()
    server.drain(first[0])
    late.reconcile_after_leases()
    assert outline(late.drain(joined)).endswith("C:tool S:infer P C:infer complete")
    server.assert_whole(ref)


def test_a_second_equal_message_that_the_store_refuses_is_not_to_be_sent_again(serve: Serve) -> None:
    server = serve(["first"])
    ref = server.session()
    server.drain(server.start(ref, by=FIRST))
    server.store.before(opens_turn, unavailable)
    with pytest.raises(StoreUnavailable) as refused:
        server.start(ref, by=FIRST)
    assert error_reply(refused.value).headers == {"x-should-retry": "false", "retry-after": "1"}
