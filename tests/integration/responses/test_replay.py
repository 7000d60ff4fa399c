"""A response that is streamed again from any number: in its process, in another one, and after a crash.

Covers: services/responses/responses, services/streams/event_cursor, services/turns/turn_events,
  dialects/openai/responses/stream, domain/turns/cuts
"""

from __future__ import annotations

from typing import Any

import pytest

import turnstone.bootstrap.services.turns
from tests.fakes.models.scripted import Scripted, ScriptedReply, calls, cut_off
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Held, completes_turn, eventually, saves_step
from tests.support.engine.responses import encoded, followed, live, read, replayed, started
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed, NotFound
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, ReasoningChunk, TextChunk, call_pieces
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.tools.tools import call_from_json

EVERY_S = 0.02
ADD = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {}}}}
ROLL = call_from_json("r", "roll", "{}")
CALL = call_from_json("c1", "add", '{"a": 1}')
OTHER = call_from_json("c2", "add", '{"a": "\\ud83d\\ude00"}')
ROLLING = ScriptedReply(chunks=(TextChunk("Let "), TextChunk("me."), *call_pieces([ROLL])), calls=(ROLL,))
DONE = ScriptedReply(("It ", "is ", "four."))
THINKING = ScriptedReply(
    chunks=(
        ReasoningChunk("Hm, "),
        TextChunk("So "),
        ReasoningChunk("a call."),
        CallBegun(0, "c1", "add"),
        ArgumentsChunk(0, '{"a":'),
        CallBegun(1, "c2", "add"),
        ArgumentsChunk(1, '{"a": "\\ud83d'),
        ArgumentsChunk(0, " 1}"),
        ArgumentsChunk(1, '\\ude00"}'),
    ),
    calls=(CALL, OTHER),
)
LEFT_OUT = ScriptedReply(chunks=(TextChunk("a"), CallBegun(0, "c1", "add"), ArgumentsChunk(0, '{"a')), is_cut_off=True)


@pytest.fixture(autouse=True)
def _polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", EVERY_S)


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["sequence_number"] for event in events]


def is_contiguous(found: list[int]) -> bool:
    return found == list(range(found[0], found[0] + len(found))) if found else True


def assert_exact(make: Make, text: str, whole: list[dict[str, Any]], *servers: Any) -> None:
    """Assert that every part of the stream is repeated by each process, and that a read returns its end."""
    assert numbers(whole) == list(range(len(whole)))
    for server in (*servers, make()):
        for after in range(-1, len(whole)):
            is_doubtful = whole[-1]["type"] == "response.failed"  # its number may be that of a lost event
            assert replayed(server, text, after) == whole[min(after + 1, len(whole) - is_doubtful) :]
        assert read(server, text) == whole[-1]["response"]


@pytest.mark.parametrize(
    ("script", "body"),
    [
        ((DONE,), {}),
        ((THINKING,), {"tools": [ADD]}),
        ((THINKING,), {"tools": [ADD], "parallel_tool_calls": False}),
        ((calls(CALL, OTHER, text="So."),), {"tools": [ADD]}),
        ((cut_off("Once upon"),), {}),
        ((LEFT_OUT,), {"tools": [ADD]}),
        ((ScriptedReply(("It ", "fails"), error=ModelFailed("overheated")),), {}),
    ],
    ids=["text", "thoughts and calls", "one call", "calls at once", "cut off", "cut off in a call", "failed"],
)
def test_a_response_is_streamed_again_from_any_number(
    make: Make, script: tuple[Scripted, ...], body: dict[str, Any]
) -> None:
    server = make(*script)
    began = started(server, **body)
    whole = live(began)
    server.settle()
    if whole[-1]["type"] == "response.failed":  # what a failed inference had streamed is not stored
        whole = replayed(server, response_id(began.broadcast.ref))
    assert_exact(make, response_id(began.broadcast.ref), whole, server)


def test_a_response_with_tools_of_the_server_is_streamed_again_from_any_number(make: Make) -> None:
    server = make(ROLLING, DONE)
    agent = server.agent(toolgroups=["dice"])
    began = started(server, model=f"agent/{agent}")
    whole = live(began)
    server.settle()
    assert_exact(make, response_id(began.broadcast.ref), whole, server)


def test_a_running_response_is_followed_from_any_number_here_and_elsewhere(make: Make) -> None:
    held = Held(DONE)
    server = make(ROLLING, held)
    began = started(server, model=f"agent/{server.agent(toolgroups=['dice'])}")
    text = response_id(began.broadcast.ref)
    held.wait()
    half = live(began, is_over=False)
    assert replayed(server, text, is_over=False) == half
    elsewhere = make()
    assert replayed(elsewhere, text, is_over=False) == half
    streams = [
        (process, after, followed(process, text)) for process in (server, elsewhere) for after in (-1, 1, len(half) - 1)
    ]
    assert {stream.broadcast.is_over for _, _, stream in streams} == {False}
    held.open()
    whole = live(began)
    for process, after, _ in streams:
        assert replayed(process, text, after) == whole[after + 1 :]
    assert_exact(make, text, whole, server, elsewhere)


@pytest.mark.parametrize("is_after_first_step", [True, False])
def test_after_a_crash_the_rest_follows_whatever_was_received(make: Make, is_after_first_step: bool) -> None:
    first = make(ROLLING, DONE)
    agent = first.agent(toolgroups=["dice"])
    dies = completes_turn if is_after_first_step else saves_step
    first.store.before(dies, first.store.die)
    began = started(first, model=f"agent/{agent}")
    text = response_id(began.broadcast.ref)
    eventually(lambda: first.store.is_dead and not first.core.executor._running)
    received = live(began, is_over=False)
    script = (DONE,) if is_after_first_step else (ROLLING, DONE)
    held = Held(script[-1])
    heir, elsewhere = make(*script[:-1], held), make()
    early = followed(elsewhere, text)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    assert heir.core.recovery.reconcile(began.broadcast.ref).run is not None
    held.wait()
    assert not early.broadcast.is_over
    for after in range(-1, len(received)):
        assert is_contiguous(numbers(replayed(heir, text, after, is_over=False)))
    held.open()
    heir.settle()
    whole = replayed(heir, text)
    assert numbers(whole) == list(range(len(whole)))
    for process in (heir, elsewhere):
        for seen in range(len(received) + 1):
            rest = replayed(process, text, seen - 1)
            union = {event["sequence_number"]: event for event in (*received[:seen], *rest)}
            assert list(union.values())[: len(whole)] == whole
            assert numbers(rest) == list(range(len(whole) - len(rest), len(whole)))
    assert read(heir, text) == whole[-1]["response"]


def test_a_client_that_follows_elsewhere_receives_a_takeover_here_without_a_gap(make: Make) -> None:
    first = make(ROLLING, DONE)
    agent = first.agent(toolgroups=["dice"])
    first.store.before(completes_turn, first.store.die)
    began = started(first, model=f"agent/{agent}")
    text = response_id(began.broadcast.ref)
    eventually(lambda: first.store.is_dead and not first.core.executor._running)
    received = live(began, is_over=False)
    heir = make(DONE)
    broadcasts = [(after, *followed(heir, text)) for after in range(-1, len(received))]
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    assert heir.core.recovery.reconcile(began.broadcast.ref).run is not None
    heir.settle()
    whole = replayed(heir, text)
    for after, broadcast, sent in broadcasts:
        shown = ShownResponse(broadcast.ref, sent)
        rest = encoded(ResponseStream(shown, after, lambda b=broadcast: b.doubtful_after), broadcast)
        assert [whole[number] for number in numbers(rest)] == rest
        assert numbers(rest) == list(range(len(whole) - len(rest), len(whole)))
        assert len(rest) >= len(whole) - after - 1


def test_a_response_that_is_deleted_or_missing_has_no_stream(make: Make) -> None:
    server = make(DONE)
    began = started(server)
    text = response_id(began.broadcast.ref)
    server.drain(began.broadcast)
    stranger = LOCAL_CALLER.model_copy(update={"tenant": "other"})
    with pytest.raises(NotFound):
        followed(server, text, stranger)
    server.core.responses.delete(LOCAL_CALLER, text)
    with pytest.raises(NotFound):
        followed(server, text)
