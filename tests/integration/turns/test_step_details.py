"""Details of steps reach the subscribers that read them, live and replayed, and no client of the Agents API.

Covers: services/streams/broadcast, services/streams/event_cursor, services/streams/replay, http/streams/sse,
  store/sessions/long_texts, store/sessions/wire_turns
"""

from __future__ import annotations

import asyncio
import json
import logging
from random import Random

import pytest
from starlette.types import Message

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Held, completes_turn, drained_events, eventually
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.dialects.llama_stack_2024.stream import TurnStream2024
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed
from turnstone.domain.models.requests import (
    ArgumentsChunk,
    CallBegun,
    Chunk,
    ReasoningChunk,
    TextChunk,
)
from turnstone.domain.refs import TurnRef
from turnstone.domain.tools.tools import call_from_json
from turnstone.domain.turns.events import Numbered, StepDetailed, StepProgressed, TextDelta, TurnEvent, TurnStarted
from turnstone.http.streams.silence import PING
from turnstone.http.streams.sse import sse_chunks
from turnstone.ports.records import Get
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.event_cursor import EventCursor
from turnstone.services.streams.replay import numbered
from turnstone.store.layout.keys import turn_key
from turnstone.store.sessions.long_texts import with_long_texts_left
from turnstone.store.sessions.turn_records import turn_state_of
from turnstone.store.sessions.wire_turns import wire_turn

REF = TurnRef(tenant="local", agent_id="a", session_id="s", turn_id="t")
ROLL = call_from_json("r", "roll", "{}")
THINKING = ScriptedReply(
    chunks=(
        ReasoningChunk("A secret"),
        ReasoningChunk(" thought 😀."),
        TextChunk("Let "),
        TextChunk("me see."),
        CallBegun(0, "r", "roll"),
        ArgumentsChunk(0, "{"),
        ArgumentsChunk(0, "}"),
    ),
    calls=(ROLL,),
)
DONE = ScriptedReply(("It ", "is ", "four."))


def detail(number: int) -> StepDetailed:
    return StepDetailed("s", ReasoningChunk(str(number)))


def text(number: int) -> StepProgressed:
    return StepProgressed(step_type="inference", step_id="s", delta=TextDelta(text=str(number)))


def taken(broadcast: TurnBroadcast, *, reads_details: bool) -> tuple[Numbered, ...]:
    return broadcast.subscribe(lambda: None, reads_details=reads_details).take().numbered


def shown_in(events: tuple[Numbered, ...]) -> list[tuple[TurnEvent, int | None]]:
    """Return the events with their numbers, without those that a delta combines."""
    return [(each.event, each.number) for each in events]


def pieces_in(events: tuple[TurnEvent, ...]) -> list[Chunk]:
    return [event.piece for event in events if isinstance(event, StepDetailed)]


def test_only_subscribers_that_read_details_receive_and_are_woken_by_them() -> None:
    broadcast = TurnBroadcast(REF)
    woken: list[str] = []
    plain = broadcast.subscribe(lambda: woken.append("plain"))
    curious = broadcast.subscribe(lambda: woken.append("curious"), reads_details=True)
    assert plain.take().is_empty
    assert curious.take().is_empty
    broadcast.publish(detail(1))
    assert woken == ["curious"]
    assert curious.take().numbered == (Numbered(detail(1), None),)
    broadcast.publish(detail(2), text(3))
    assert woken == ["curious", "plain", "curious"] or woken == ["curious", "curious", "plain"]
    assert plain.take().numbered == (Numbered(text(3), 1),)
    assert curious.take().numbered == (Numbered(detail(2), None), Numbered(text(3), 1))
    broadcast.close(detail(4))
    assert plain.take() == ((), True, False)
    assert curious.take().numbered == (Numbered(detail(4), None),)


def test_a_client_of_the_agents_api_gets_comments_while_the_model_only_reasons() -> None:
    async def stay() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the client stays")

    async def received_while_reasoning() -> list[bytes]:
        broadcast = TurnBroadcast(REF)
        for number in range(500):
            broadcast.publish(detail(number))

        async def reason() -> None:
            for number in range(20):
                await asyncio.sleep(0.01)
                broadcast.publish(detail(number))
            broadcast.close(TurnStarted(turn_id="t"))

        reasoning = asyncio.create_task(reason())
        found = [sent async for sent in sse_chunks(broadcast, TurnStream(), stay, timeout_s=0.05)]
        await reasoning
        return found

    *comments, last = asyncio.run(received_while_reasoning())
    assert set(comments) == {PING}
    assert last.startswith(b"data: ")
    assert PING.startswith(b":")


def test_an_event_cursor_passes_over_any_number_of_details() -> None:
    running = TurnBroadcast(REF)
    running.publish(*map(detail, range(450)), text(1))
    cursor = EventCursor(REF, 0)
    running.before = (Numbered(detail(0), None),)
    cursor.attach(running)
    subscriber = cursor.broadcast.subscribe(lambda: None)
    assert subscriber.take(200).numbered == (Numbered(text(1), 1),)
    running.publish(detail(2))
    running.close(text(3))
    assert subscriber.take(200).numbered == (Numbered(text(3), 2),)


def test_the_agents_streams_have_no_bytes_for_a_detail() -> None:
    assert TurnStream().encode(Numbered(detail(1), None)) == b""
    assert TurnStream2024().encode(Numbered(detail(1), None)) == b""


@pytest.mark.parametrize("keeps_details", [False, True])
def test_live_subscribers_receive_the_details_in_order_with_contiguous_numbers(make: Make, keeps_details: bool) -> None:
    server = make(THINKING, DONE)
    broadcast = server.start(server.session(toolgroups=["dice"]), keeps_details=keeps_details)
    plain = server.drain(broadcast)
    all_numbered = taken(broadcast, reads_details=True)
    everything = tuple(each.event for each in all_numbered)
    assert not pieces_in(plain)
    assert tuple(event for event in everything if not isinstance(event, StepDetailed)) == plain
    numbers = [each.number for each in all_numbered if each.number is not None]
    assert numbers == list(range(1, len(plain) + 1))
    of_step = [
        event.piece if isinstance(event, StepDetailed) else TextChunk(event.delta.text)
        for event in everything
        if isinstance(event, StepDetailed) or (isinstance(event, StepProgressed) and isinstance(event.delta, TextDelta))
    ]
    emitted = [chunk for chunk in THINKING.chunks if keeps_details or isinstance(chunk, TextChunk)]
    assert tuple(of_step) == (*emitted, *map(TextChunk, DONE.texts))
    state = server.state(broadcast.ref)
    assert state.keeps_details is keeps_details
    if keeps_details:
        assert shown_in(numbered(state, is_detailed=True)) == shown_in(all_numbered)
    else:
        assert [(trace.reasoning, trace.cuts) for trace in state.traces] == [("", None)] * 3


def test_the_reasoning_is_in_no_log_no_wire_turn_and_no_later_request(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = make(THINKING, DONE, DONE)
    ref = server.session(toolgroups=["dice"])
    broadcast = server.start(ref, keeps_details=True)
    server.drain(broadcast)
    server.whole_turn(ref)
    assert server.state(broadcast.ref).traces[0].reasoning == "A secret thought 😀."
    assert all("A secret" not in str(request.messages) for request in server.inference.requests)
    assert "A secret" not in caplog.text
    assert "A secret" not in server.state(broadcast.ref).turn.model_dump_json()
    events = server.core.events.follow(LOCAL_CALLER, broadcast.ref, 0)
    assert not pieces_in(drained_events(events))
    assert not any(isinstance(each.event, StepDetailed) for each in events.published)


def test_a_takeover_keeps_the_details_of_the_stored_steps(make: Make) -> None:
    first, held = make(THINKING, DONE), Held(DONE)
    ref = first.session(toolgroups=["dice"])
    first.store.before(completes_turn, first.store.die)
    broadcast = first.start(ref, keeps_details=True)
    eventually(lambda: first.store.is_dead and not first.core.executor._running)
    before = taken(broadcast, reads_details=True)[:14]  # up to the step that was lost
    heir = make(held)
    heir.clock.advance(LEASE_S + 1)  # type: ignore[attr-defined]
    assert heir.core.recovery.reconcile(broadcast.ref).run is not None
    held.wait()
    running = heir.core.broadcasts.find(broadcast.ref)
    assert running is not None
    assert shown_in(taken(running, reads_details=True)[: len(before)]) == shown_in(before)
    held.open()
    heir.settle()
    assert heir.state(broadcast.ref).keeps_details
    assert pieces_in(tuple(each.event for each in before)) == [
        chunk for chunk in THINKING.chunks if not isinstance(chunk, TextChunk)
    ]


def noise(characters: int) -> str:
    letters = [chr(number) for number in range(0x4E00, 0x9000)]  # three bytes each, and hardly compressible
    return "".join(Random(3).choices(letters, k=characters))


@pytest.mark.parametrize("size", [100_000, 300_000], ids=["300 KB", "900 KB"])
def test_a_turn_with_long_reasoning_is_stored_and_replayed_as_it_was_streamed(make: Make, size: int) -> None:
    long = noise(size)
    thoughts = tuple(ReasoningChunk(long[at : at + 1_000]) for at in range(0, size, 1_000))
    chunks = (*thoughts, *THINKING.chunks[2:])
    server = make(ScriptedReply(chunks=chunks, calls=(ROLL,)), DONE)
    broadcast = server.start(server.session(toolgroups=["dice"]), keeps_details=True)
    server.drain(broadcast)
    streamed = taken(broadcast, reads_details=True)
    (record,), _ = server.records.gather([Get(turn_key(broadcast.ref, broadcast.ref.turn_id), 0)], [])
    assert record is not None
    assert record.pieces is not None
    whole, restore = with_long_texts_left(record)
    assert restore is None
    assert shown_in(numbered(turn_state_of(whole), is_detailed=True)) == shown_in(streamed)


def test_a_failed_turn_with_long_reasoning_shows_its_failure(make: Make) -> None:
    chunks = (ReasoningChunk(noise(60_000)), *THINKING.chunks[2:])
    server = make(ScriptedReply(chunks=chunks, calls=(ROLL,)), ModelFailed("overheated"))
    broadcast = server.start(server.session(toolgroups=["dice"]), keeps_details=True)
    server.drain(broadcast)
    (record,), _ = server.records.gather([Get(turn_key(broadcast.ref, broadcast.ref.turn_id), 0)], [])
    assert record is not None
    assert record.pieces is not None
    wire = wire_turn(record)
    shown = json.loads(wire if isinstance(wire, bytes) else b"".join(wire))
    assert "its model gave no usable answer" in shown["failure"]["message"]
