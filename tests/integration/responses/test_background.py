"""Responses in the background on one machine: queued, run once by any process, followed, and cancelled at any step.

Covers: services/responses/responses, dialects/openai/responses/folding, dialects/openai/responses/shown
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnstone.bootstrap.services.turns
from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import Make, made_over_sqlite
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Held,
    Server,
    attempt,
    call_number,
    completes_turn,
    eventually,
    together,
)
from tests.support.engine.responses import followed, queued, read, replayed, responded, started
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.responses.addresses import response_id, turn_of

DONE = ScriptedReply(("It ", "is ", "so."))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    yield from made_over_sqlite(tmp_path)


@pytest.fixture(autouse=True)
def _polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", 0.02)


def cancelled(server: Server, text: str) -> dict[str, Any]:
    server.core.responses.cancel(LOCAL_CALLER, text, attempt())
    return read(server, text)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(event["type"].removeprefix("response.") for event in events))


def test_it_is_answered_at_once_and_completes_by_itself(make: Make) -> None:
    held = Held(DONE)
    server = make(held, is_on_lambda=False)
    stored = queued(server)
    text = response_id(stored.ref)
    assert stored.is_queued
    held.wait()
    running = read(server, text)
    assert (running["status"], running["background"], running["output"]) == ("in_progress", True, [])
    held.open()
    server.settle()
    events = replayed(server, text)
    assert kinds(events)[:3] == ["created", "queued", "in_progress"]
    assert [event["response"]["status"] for event in events[:3]] == ["queued", "queued", "in_progress"]
    assert read(server, text) == events[-1]["response"]


def waiting_for_others(make: Make) -> tuple[Server, str]:
    """Return a server whose background responses other processes run, and one that waits for them."""
    server = make(is_on_lambda=True)
    stored = queued(server)
    text = response_id(stored.ref)
    assert read(server, text)["status"] == "queued"
    return server, text


def test_another_process_runs_a_queued_response_once(make: Make) -> None:
    server, text = waiting_for_others(make)
    ref = turn_of(LOCAL_CALLER.tenant, text)
    assert kinds(replayed(server, text, is_over=False)) == ["created", "queued"]
    worker, late = make(DONE), make(DONE)
    for each in (worker, late):
        each.core.recovery.reconcile(ref)
        each.settle()
    assert read(server, text)["output"][0]["content"][0]["text"] == "It is so."
    assert (len(worker.inference.requests), len(late.inference.requests)) == (1, 0)
    assert worker.state(ref).takeovers == 0
    events = replayed(server, text)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_process_that_dies_in_the_middle_is_replaced(make: Make) -> None:
    server, text = waiting_for_others(make)
    first, heir = make(DONE), make(DONE)
    first.store.before(completes_turn, first.store.die)
    ref = turn_of(LOCAL_CALLER.tenant, text)
    first.core.recovery.reconcile(ref)
    eventually(lambda: first.store.is_dead and not first.core.executor._running)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(ref)
    heir.settle()
    assert read(server, text)["status"] == "completed"
    assert replayed(server, text)[-1]["type"] == "response.completed"


def test_a_queued_response_keeps_its_conversation_from_newer_requests(make: Make) -> None:
    server = make("one", DONE, is_on_lambda=True)
    first = responded(server)
    stored = queued(server, previous_response_id=first["id"])
    text = response_id(stored.ref)
    with pytest.raises(TurnRunning):
        responded(server, previous_response_id=text)
    with pytest.raises(TurnRunning):
        server.start(stored.ref.session)
    server.clock.advance(10 * LEASE_S)  # type: ignore[attr-defined]
    with pytest.raises(TurnRunning):
        server.start(stored.ref.session)
    fork = responded(server, previous_response_id=first["id"])
    assert fork["output"][0]["content"][0]["text"] == "It is so."
    worker = make("two")
    worker.core.recovery.reconcile(stored.ref)
    worker.settle()
    assert read(server, text)["output"][0]["content"][0]["text"] == "two"


def test_only_responses_in_the_background_are_cancelled(make: Make) -> None:
    held = Held(DONE)
    server = make(DONE, held)
    plain = responded(server)
    with pytest.raises(InvalidRequest):
        cancelled(server, plain["id"])
    text = response_id(queued(server).ref)
    held.wait()
    stranger = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    with pytest.raises(NotFound):
        server.core.responses.cancel(stranger, text, attempt())
    stream = followed(server, text)
    response = cancelled(server, text)
    assert (response["status"], response["error"], response["output"]) == ("cancelled", None, [])
    assert cancelled(server, text) == response
    held.open()
    server.settle()
    assert stream.broadcast.news_for(stream.broadcast.subscribe(lambda: None), None).is_last
    assert replayed(server, text)[-1]["response"] == response
    assert responded(make(DONE), previous_response_id=text)["status"] == "completed"


def test_a_queued_response_that_is_cancelled_is_never_run(make: Make) -> None:
    server, text = waiting_for_others(make)
    response = cancelled(server, text)
    assert response["status"] == "cancelled"
    worker = make(DONE)
    worker.core.recovery.reconcile(turn_of(LOCAL_CALLER.tenant, text))
    worker.settle()
    assert worker.inference.requests == []
    assert kinds(replayed(server, text)) == ["created", "queued", "failed"]


@pytest.mark.parametrize("point", range(1, 9))
def test_a_cancellation_wins_or_loses_at_each_step_of_a_run(make: Make, point: int) -> None:
    server, text = waiting_for_others(make)
    worker = make(DONE)
    seen: list[dict[str, Any]] = []
    worker.store.before(call_number(len(worker.store.calls) + point), lambda: seen.append(cancelled(server, text)))
    worker.core.recovery.reconcile(turn_of(LOCAL_CALLER.tenant, text))
    worker.settle()
    ended = read(server, text)
    if seen:
        assert ended == seen[0]
    assert ended["status"] in (("completed", "cancelled") if not seen else (seen[0]["status"],))
    assert cancelled(server, text) == ended
    assert len(worker.inference.requests) <= 1
    assert replayed(server, text)[-1]["response"] == ended
    worker.assert_whole(turn_of(LOCAL_CALLER.tenant, text))


def test_cancellations_at_once_agree(make: Make) -> None:
    held = Held(DONE)
    server = make(held)
    text = response_id(queued(server).ref)
    held.wait()
    found = together(*[lambda: cancelled(server, text)] * 4)
    held.open()
    assert found == [read(server, text)] * 4


def test_a_request_that_is_sent_again_finds_its_response(make: Make) -> None:
    server = make(DONE)
    key = "0d6a6d0c-6a54-4c93-8b8b-111111111111"
    first = queued(server, attempt("same", key=key))
    server.settle()
    again = queued(server, attempt("same", key=key))
    assert (again.ref, again.is_queued) == (first.ref, False)
    assert len(server.inference.requests) == 1


def test_a_request_that_continues_a_response_of_a_dead_process_has_it_taken_over(make: Make) -> None:
    dying, heir = make("lost"), make("one", "two")
    assert isinstance(heir, Harness)
    dying.store.before(completes_turn, dying.store.die)
    begun = started(dying, input="start").broadcast
    dying.drain(begun)
    request = {"input": "on", "previous_response_id": response_id(begun.ref)}
    with pytest.raises(TurnRunning):
        responded(heir, **request)
    assert heir.supervisor.watched == {}
    heir.clock.advance(LEASE_S)
    with pytest.raises(TurnRunning):
        responded(heir, **request)
    heir.reconcile_due()
    heir.settle()
    responded(heir, **request)
    assert [message.content for message in heir.inference.requests[-1].messages] == ["start", "one", "on"]
