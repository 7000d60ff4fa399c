"""A turn's events by their numbers: a client that returns at any of them receives the rest, and never a wrong text.

Covers: services/turns/turn_events, services/turns/joining, services/streams/replay, services/streams/broadcast
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import turnstone.bootstrap.services.turns
from tests.fakes.models.scripted import Scripted, ScriptedReply, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import (
    AWAIT_S,
    LEASE_S,
    Gate,
    Held,
    Server,
    answer,
    attempt,
    client_tool,
    drained_events,
    eventually,
    outline,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import ModelFailed, NotFound, StoreUnavailable
from turnstone.domain.models.requests import InferenceRequest, TextChunk
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import Numbered, StepCompleted, StepProgressed, StepStarted, TextDelta, TurnFailed
from turnstone.domain.turns.turns import InferenceStep, TurnStatus
from turnstone.domain.values.content import text_of
from turnstone.ports.records import Delete, Put
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import numbered
from turnstone.store.layout.keys import turn_key

ROLL = call("roll", "r")
CLIENT_CALL = call("look", "l")
WORDY = ScriptedReply(("It ", "is ", "a ", "four."))
SEARCHING = ScriptedReply(("Let ", "me ", "see."), (ROLL,))
CALLING = ScriptedReply(("Look ", "there."), (CLIENT_CALL,))
EVERY_S = 0.02


@pytest.fixture(autouse=True)
def _polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", EVERY_S)


def started(server: Server) -> TurnBroadcast:
    return server.start(server.session(toolgroups=["dice"], client_tools=[client_tool()]))


def follow(server: Server, turn: TurnRef, after: int = 0) -> TurnBroadcast:
    return server.core.events.follow(LOCAL_CALLER, turn, after)


def replay(server: Server, turn: TurnRef, after: int = 0) -> list[Numbered]:
    """Return the events after that number, once the stream is over."""
    broadcast = follow(server, turn, after)
    drained_events(broadcast)
    return broadcast.published


def ids(events: Iterable[Numbered]) -> list[int]:
    return [event.number for event in events if event.number is not None]


class Client:
    """Assembles received events as a client does: a started step replaces one that did not end."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.steps: dict[str, Any] = {}
        self.last: Any = None

    def receives(self, events: Iterable[Numbered]) -> Client:
        for event, _, _ in events:
            self.last = event
            if isinstance(event, StepStarted):
                self._texts = {event.step_id: ""}
            elif isinstance(event, StepProgressed) and isinstance(event.delta, TextDelta):
                self._texts[event.step_id] += event.delta.text
            elif isinstance(event, StepCompleted):
                if isinstance(event.step_details, InferenceStep):
                    text = text_of(event.step_details.model_response.content)
                    assert self._texts[event.step_id] == text, "the text is wrong"
                self.steps[event.step_id] = event.step_details
        return self

    def matches(self, server: Server, turn: TurnRef) -> bool:
        state = server.state(turn)
        assert list(self.steps.values()) == list(state.turn.steps)
        return self.last == numbered(state)[-1].event


def assert_resumable(server: Server, turn: TurnRef, live: list[Numbered]) -> None:
    """Assert that a client which received any part of the live stream gets the rest by one request."""
    for seen in range(len(live) + 1):
        after = max(ids(live[:seen]), default=0)
        rest = replay(server, turn, after)
        assert not [number for number in ids(rest) if number <= after]
        if seen < len(live):
            assert Client().receives(live[:seen]).receives(rest).matches(server, turn), f"received {seen}"


# ---- numbers


def test_live_events_are_numbered_without_a_gap_over_pauses_and_resumes(make: Make) -> None:
    server = make(SEARCHING, CALLING, WORDY)
    first = started(server)
    server.drain(first)
    second = server.resume(first.ref, answer("l"))
    server.drain(second)
    assert ids([*first.published, *second.published]) == list(
        range(1, len(first.published) + len(second.published) + 1)
    )
    assert outline(second.events) == "C:tool S:infer P P P P C:infer complete"


def test_a_replay_has_the_numbers_of_the_live_stream(make: Make) -> None:
    server = make(SEARCHING, CALLING, WORDY)
    first = started(server)
    server.drain(first)
    second = server.resume(first.ref, answer("l"))
    server.drain(second)
    live = {one.number: one.event for one in (*first.published, *second.published)}
    replayed = replay(server, first.ref)
    exact = [event for event in replayed if event.first is None or event.first == event.number]
    assert [event.event for event in exact] == [live[event.number] for event in exact]
    assert ids(replayed) == sorted(ids(replayed))
    assert ids(replayed)[-1] == ids(second.published)[-1]
    coalesced = [event.event for event in replayed if event not in exact]
    assert [event.delta.text for event in coalesced] == ["Let me see.", "Look there.", "It is a four."]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "script",
    [(WORDY,), (SEARCHING, WORDY), (CALLING,), (SEARCHING, CALLING), (ScriptedReply(error=ModelFailed("broken")),)],
)
def test_a_client_that_returns_at_any_event_receives_the_rest(make: Make, script: tuple[Scripted, ...]) -> None:
    server = make(*script)
    broadcast = started(server)
    server.drain(broadcast)
    assert_resumable(server, broadcast.ref, broadcast.published)
    assert_resumable(make(), broadcast.ref, broadcast.published)


def test_a_client_that_returns_after_a_resume_receives_the_rest(make: Make) -> None:
    server = make(CALLING, SEARCHING, WORDY)
    first = started(server)
    server.drain(first)
    second = server.resume(first.ref, answer("l"))
    server.drain(second)
    assert_resumable(server, first.ref, [*first.published, *second.published])


def test_the_partial_answer_of_a_failed_model_call_is_not_replayed(make: Make) -> None:
    server = make(SEARCHING, ScriptedReply(("Half ", "an "), error=ModelFailed("broken")))
    broadcast = started(server)
    server.drain(broadcast)
    last = broadcast.published[-1]
    assert isinstance(last.event, TurnFailed)
    stored = numbered(server.state(broadcast.ref))
    assert last == stored[-1]
    assert_resumable(server, broadcast.ref, broadcast.published)


def test_a_partly_received_step_is_replayed_from_its_start_without_a_number(make: Make) -> None:
    server = make(WORDY)
    broadcast = started(server)
    server.drain(broadcast)
    started_again, text, *_ = replay(server, broadcast.ref, after=4)
    assert (outline([started_again.event]), started_again.number) == ("S:infer", None)
    assert (text.event.delta.text, text.number) == ("It is a four.", 6)  # type: ignore[union-attr]
    assert ids(replay(server, broadcast.ref, after=2)) == [6, 7, 8]
    assert ids(replay(server, broadcast.ref, after=6)) == [7, 8]
    assert replay(server, broadcast.ref, after=8) == []


# ---- a turn that runs


def test_a_turn_that_runs_here_is_replayed_exactly_and_followed_to_its_end(make: Make) -> None:
    thinking = Held("done")
    server = make(SEARCHING, thinking)
    broadcast = started(server)
    thinking.wait()
    so_far = list(broadcast.published)
    followers = [follow(server, broadcast.ref, after) for after in range(len(so_far) + 1)]
    for after, follower in enumerate(followers):
        assert follower.subscribe(lambda: None).take().numbered == tuple(so_far[after:])
    thinking.open()
    server.drain(broadcast)
    for after, follower in enumerate(followers):
        assert drained_events(follower) == tuple(one.event for one in broadcast.published[after:])
        assert ids(follower.published) == list(range(after + 1, len(broadcast.published) + 1))


def test_a_follower_of_a_resumed_turn_receives_the_events_before_the_resume(make: Make) -> None:
    thinking = Held("done")
    server = make(CALLING, thinking)
    first = started(server)
    server.drain(first)
    second = server.resume(first.ref, answer("l"))
    thinking.wait()
    follower = follow(server, first.ref)
    thinking.open()
    server.drain(second)
    drained_events(follower)
    assert Client().receives(follower.published).matches(server, first.ref)
    assert ids(follower.published)[-1] == ids(second.published)[-1]


def test_a_turn_that_runs_elsewhere_is_followed_step_by_step(make: Make) -> None:
    thinking, more = Held(SEARCHING), Held(WORDY)
    server, other = make(thinking, more), make()
    broadcast = started(server)
    thinking.wait()
    follower = follow(other, broadcast.ref)
    assert outline(follower.events) == "start"
    thinking.open()
    more.wait()
    eventually(lambda: outline(follower.events) == "start S:infer P P C:infer S:tool P C:tool")
    more.open()
    server.drain(broadcast)
    drained_events(follower)
    assert Client().receives(follower.published).matches(server, broadcast.ref)
    assert ids(follower.published)[-1] == ids(broadcast.published)[-1]


@pytest.mark.parametrize("ending", ["pauses", "fails", "is cancelled"])
def test_a_follower_in_another_process_receives_the_pause_or_the_end(make: Make, ending: str) -> None:
    thinking = Held({"pauses": CALLING, "fails": ScriptedReply(error=ModelFailed("broken"))}.get(ending, "late"))
    server, other = make(SEARCHING, thinking), make()
    broadcast = started(server)
    thinking.wait()
    follower = follow(other, broadcast.ref)
    if ending == "is cancelled":
        other.core.cancelling.cancel(LOCAL_CALLER, broadcast.ref, attempt())
    thinking.open()
    server.drain(broadcast)
    events = drained_events(follower)
    endings = {"pauses": "awaiting", "fails": "failed:model_failed", "is cancelled": "failed:ended"}
    assert outline(events).endswith(endings[ending])
    assert of_no_revision(follower.published[-1]) == of_no_revision(broadcast.published[-1])
    assert follower.published[-1].number is not None


def test_a_turn_that_expires_while_it_waits_is_replayed_as_failed(make: Make) -> None:
    server = make(CALLING)
    broadcast = started(server)
    server.drain(broadcast)
    server.clock.advance(AWAIT_S + 1)  # type: ignore[attr-defined]
    eventually(lambda: server.core.recovery.reconcile(broadcast.ref).check_at is None)
    for after in range(len(broadcast.published) + 2):
        assert isinstance(replay(server, broadcast.ref, after)[-1].event, TurnFailed)


def test_a_turn_whose_follower_has_left_is_not_polled(make: Make) -> None:
    thinking = Held("late")
    server, other = make(thinking), make()
    broadcast = started(server)
    thinking.wait()
    follower = follow(other, broadcast.ref)
    listener = follower.subscribe(lambda: None)
    assert other.core.turn_services.following._is_polling
    follower.unsubscribe(listener)
    eventually(lambda: not other.core.turn_services.following._is_polling)
    thinking.open()
    server.drain(broadcast)


def test_a_store_that_is_briefly_unavailable_is_polled_again(make: Make) -> None:
    thinking = Held("done")
    server, other = make(thinking), make()
    broadcast = started(server)
    thinking.wait()
    follower = follow(other, broadcast.ref)
    failures: list[int] = []

    def fail() -> None:
        failures.append(1)
        raise StoreUnavailable("not now")

    other.store.before(lambda made: made.verb == "gather", fail, times=2)
    eventually(lambda: len(failures) == 2)
    thinking.open()
    server.drain(broadcast)
    assert outline(drained_events(follower)).endswith("complete")


def test_a_follower_of_a_removed_turn_receives_that_it_is_gone(make: Make) -> None:
    thinking = Held("late")
    server, other = make(thinking), make()
    broadcast = started(server)
    thinking.wait()
    follower = follow(other, broadcast.ref)
    server.records.write([Delete(turn_key(broadcast.ref, broadcast.ref.turn_id))])
    assert "not found" in drained_events(follower)[-1].failure.message  # type: ignore[union-attr]
    thinking.open()
    server.drain(broadcast)


def test_a_turn_that_can_no_longer_be_followed_ends_only_its_own_followers(make: Make) -> None:
    gates = [Held("late"), Held("done")]
    server, other = make(gates[0]), make()
    broken = started(server)
    gates[0].wait()
    whole_server = make(gates[1])
    whole = started(whole_server)
    gates[1].wait()
    followers = [follow(other, broken.ref), follow(other, whole.ref), follow(other, broken.ref)]
    following = other.core.turn_services.following
    server.records.write([Put(turn_key(broken.ref, broken.ref.turn_id), b"broken", {"status": "in_progress"})])
    for follower in (followers[0], followers[2]):
        end = drained_events(follower)[-1]
        assert isinstance(end, TurnFailed)
        assert (end.turn_id, end.failure.kind) == (broken.ref.turn_id, "internal")
    eventually(lambda: len(following._followed) == 1)
    followers.append(follow(other, whole.ref))
    gates[1].open()
    whole_server.drain(whole)
    for follower in (followers[1], followers[3]):
        assert outline(drained_events(follower)).endswith("complete")
    eventually(lambda: not following._is_polling)
    gates[0].open()
    server.drain(broken)


@pytest.mark.parametrize("is_broken", [True, False], ids=["of a broken turn", "of a whole turn"])
def test_a_follower_that_can_not_be_woken_does_not_stop_the_others(make: Make, is_broken: bool) -> None:
    gates = [Held("late"), Held("done")]
    server, runner, other = make(gates[0]), make(gates[1]), make()
    first = started(server)
    gates[0].wait()
    second = started(runner)
    gates[1].wait()
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)
        raise RuntimeError("the loop of this listener is closed")

    deaf, follower = follow(other, first.ref), follow(other, second.ref)
    deaf.subscribe(wake).take()
    if is_broken:
        server.records.write([Put(turn_key(first.ref, first.ref.turn_id), b"broken", {"status": "in_progress"})])
    else:
        gates[0].open()
    eventually(lambda: woken == [1])
    gates[1].open()
    assert outline(drained_events(follower)).endswith("complete")
    eventually(lambda: not other.core.turn_services.following._is_polling)
    gates[0].open()
    server.drain(first)
    runner.drain(second)


# ---- a process that dies


class Dying:
    """A model whose process dies after so many words."""

    def __init__(self, server: Server, words: int) -> None:
        self._server, self._left = server, words
        self._scripted = server.inference.stream
        server.inference.stream = self.stream  # type: ignore[method-assign]

    def stream(self, request: InferenceRequest) -> Iterator[Any]:
        for chunk in self._scripted(request):
            yield chunk
            self._left -= isinstance(chunk, TextChunk)
            if not self._left:
                self._server.store.die()


def crashed(make: Make, *script: Scripted, words: int) -> tuple[Server, TurnBroadcast]:
    server = make(*script)
    broadcast = started_before(server, lambda: Dying(server, words))
    eventually(lambda: server.store.is_dead and not server.core.executor._running)
    return server, broadcast


def started_before(server: Server, then: Any) -> TurnBroadcast:
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    then()
    return server.start(ref)


def taken_over(make: Make, turn: TurnRef, *script: Scripted) -> Server:
    heir = make(*script)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    run = heir.core.recovery.reconcile(turn).run
    assert run is not None
    return heir


@pytest.mark.parametrize("words", [2, 3, 5, 6])
def test_after_a_crash_a_client_that_received_any_part_gets_the_rest_from_the_heir(make: Make, words: int) -> None:
    """The heir reuses the numbers that the crashed run gave to events it did not store."""
    _, broadcast = crashed(make, SEARCHING, ScriptedReply(tuple("abcdefgh")), words=words)
    live = [one for one in broadcast.published if one.number is not None]
    heir = taken_over(make, broadcast.ref, *([SEARCHING, WORDY] if words <= 3 else [WORDY]))
    heir.settle()
    assert heir.state(broadcast.ref).status is TurnStatus.COMPLETED
    assert_resumable(heir, broadcast.ref, live)
    assert ids(replay(heir, broadcast.ref)) == sorted(ids(replay(heir, broadcast.ref)))


def test_after_two_crashes_numbers_of_the_first_are_still_doubted(make: Make) -> None:
    _, broadcast = crashed(make, ScriptedReply(tuple("abcdefghijklmnopqrst")), words=15)
    live = [one for one in broadcast.published if one.number is not None]
    second = make(SEARCHING, ScriptedReply(tuple("abc")))
    Dying(second, 5)
    second.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    second.core.recovery.reconcile(broadcast.ref)
    eventually(lambda: second.store.is_dead and not second.core.executor._running)
    heir = taken_over(make, broadcast.ref, WORDY)
    heir.settle()
    assert len(heir.state(broadcast.ref).turn.steps) == 3
    assert_resumable(heir, broadcast.ref, live)


def test_a_follower_during_a_takeover_here_receives_every_event(make: Make) -> None:
    _, broadcast = crashed(make, SEARCHING, ScriptedReply(tuple("abcdefgh")), words=6)
    live = [one for one in broadcast.published if one.number is not None]
    heir = make(WORDY)
    followers = [(seen, follow(heir, broadcast.ref, max(ids(live[:seen]), default=0))) for seen in range(len(live))]
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    assert heir.core.recovery.reconcile(broadcast.ref).run is not None
    heir.settle()
    for seen, follower in followers:
        drained_events(follower)
        assert Client().receives(live[:seen]).receives(follower.published).matches(heir, broadcast.ref), (
            f"received {seen}"
        )


def test_a_client_that_returns_while_the_heir_runs_receives_every_event(make: Make) -> None:
    _, broadcast = crashed(make, SEARCHING, ScriptedReply(tuple("abcdefgh")), words=6)
    live = [one for one in broadcast.published if one.number is not None]
    thinking = Held(WORDY)
    heir = taken_over(make, broadcast.ref, thinking)
    thinking.wait()
    followers = [(seen, follow(heir, broadcast.ref, max(ids(live[:seen]), default=0))) for seen in range(len(live))]
    thinking.open()
    heir.settle()
    for seen, follower in followers:
        drained_events(follower)
        assert Client().receives(live[:seen]).receives(follower.published).matches(heir, broadcast.ref), (
            f"received {seen}"
        )


def test_an_abandoned_turn_that_is_followed_is_reported_to_the_supervisor(make: Make) -> None:
    _, broadcast = crashed(make, SEARCHING, WORDY, words=5)
    heir = make()
    watched: list[TurnRef] = []
    heir.core.events._supervisor.watch = lambda turn, lock: watched.append(turn)  # type: ignore[method-assign]
    follower = follow(heir, broadcast.ref)
    assert watched == []
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    eventually(lambda: broadcast.ref in watched)
    follower.close()


def test_a_hand_off_ends_the_runs_followers_with_an_event_without_a_number(make: Make) -> None:
    thinking = Gate()

    def think(_: object) -> str:
        thinking.pass_through()
        return "late"

    server = make(SEARCHING, think)
    broadcast = started(server)
    thinking.wait()
    follower = follow(server, broadcast.ref)
    server.turns.hand_off(broadcast.ref)
    assert outline(drained_events(follower)).endswith("failed:handed_over")
    assert follower.published[-1].number is None
    thinking.open()
    server.settle()


# ---- access to the events


def test_a_missing_turn_and_another_callers_are_not_found(make: Make) -> None:
    server = make("done")
    broadcast = started(server)
    server.drain(broadcast)
    for changes in ({"turn_id": "x"}, {"session_id": "x"}, {"agent_id": "x"}, {"tenant": "x"}):
        with pytest.raises(NotFound):
            follow(server, broadcast.ref.model_copy(update=changes))


def test_a_caller_without_access_to_the_session_receives_no_event(make: Make) -> None:
    server = make("done")
    broadcast = started(server)
    server.drain(broadcast)
    server.core.events._rules._owner_only = True
    with pytest.raises(NotFound):
        server.core.events.follow(Caller(tenant=LOCAL_CALLER.tenant, principal="another"), broadcast.ref, 0)


# ---- readers of a running turn


def test_a_turn_that_runs_is_read_with_the_steps_it_has_finished(make: Make) -> None:
    thinking = Held("done")
    server, other = make(SEARCHING, thinking), make()
    broadcast = started(server)
    thinking.wait()
    for reader in (server, other):
        state = reader.reader.read(LOCAL_CALLER, broadcast.ref).state
        assert state.status is TurnStatus.IN_PROGRESS
        assert [step.step_type for step in state.turn.steps] == ["inference", "tool_execution"]
    thinking.open()
    server.drain(broadcast)


def of_no_revision(numbered: Numbered) -> Numbered:
    """Return the event as of the record's first revision: the supervisor's machine changes a record that waits."""
    state = getattr(numbered.event, "state", None)
    if state is None:
        return numbered
    event = numbered.event.model_copy(update={"state": state.model_copy(update={"rev": 0})})
    return numbered._replace(event=event)
