"""A dialect's encoder gets each numbered event of a stream once, and makes the same bytes of a replay.

Covers: http/turn_encoder, http/streams/sse, http/streams/silence, dialects/llama_stack/turns/stream,
  dialects/llama_stack_2024/stream
"""

import asyncio
import json
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.dialects.llama_stack.turns.stream import TurnStream, TurnStreamWithIds
from turnstone.dialects.llama_stack_2024.stream import TurnStream2024
from turnstone.domain.refs import TurnRef
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import (
    Numbered,
    StepProgressed,
    StepStarted,
    TextDelta,
    TextsProgressed,
    TurnFailed,
    TurnStarted,
    step_completed,
)
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import ToolExecutionStep
from turnstone.http.replies import TurnStreamReply
from turnstone.http.streams.silence import PING
from turnstone.http.streams.sse import past_events, sse_chunks
from turnstone.http.turn_encoder import TurnEncoder
from turnstone.services.streams.broadcast import TurnBroadcast

REF = TurnRef(tenant="local", agent_id="a", session_id="s", turn_id="t")
SOON_S = 5.0
RAN = ToolExecutionStep(
    turn_id="t",
    step_id="s2",
    tool_calls=(ToolCall(call_id="c", tool_name="look", arguments={}),),
    tool_responses=(ToolResponse(call_id="c", tool_name="look", content="seen"),),
)
EVENTS = (
    Numbered(TurnStarted(turn_id="t"), 1),
    Numbered(StepStarted(step_type="inference", step_id="s1"), 2),
    Numbered(StepProgressed(step_type="inference", step_id="s1", delta=TextDelta(text="Hello")), 7, 3),
    Numbered(StepProgressed(step_type="inference", step_id="s1", delta=TextDelta(text=" again")), None),
    Numbered(StepStarted(step_type="tool_execution", step_id="s2"), 8),
    Numbered(step_completed(RAN), 9),
    Numbered(TurnFailed(turn_id="t", failure=Failure(kind="ended", message="it is over")), 10),
)
ENCODERS: tuple[Callable[[], TurnEncoder], ...] = (TurnStream, TurnStreamWithIds, TurnStream2024)


class Counting:
    """An encoder with state: it numbers its own events, hides the starts of steps, and combines a call's arguments."""

    reads_details = False

    def __init__(self) -> None:
        self.sequence_number = -1
        self._text = ""

    def encode(self, numbered: Numbered) -> bytes:
        if isinstance(numbered.event, StepStarted):
            return b""
        if isinstance(numbered.event, StepProgressed) and isinstance(numbered.event.delta, TextDelta):
            self._text += numbered.event.delta.text
        return self._next(numbered.event.event_type, self._text)

    def stopped(self, message: str) -> bytes:
        return self._next("stopped", message)

    def _next(self, kind: str, text: str) -> bytes:
        self.sequence_number += 1
        return b"event: %s\ndata: %d %s\n\n" % (kind.encode(), self.sequence_number, text.encode())


def streamed(encoder: TurnEncoder, *published: Iterable[Numbered], silence_s: float = SOON_S) -> bytes:
    """Return the bytes of a stream of these batches, the last of which ends it."""

    async def scene() -> bytes:
        broadcast = TurnBroadcast(REF)

        async def publish() -> None:
            *batches, last = published
            for batch in batches:
                broadcast.publish(*batch)
                await asyncio.sleep(0)
            broadcast.close(*last)

        publishing = asyncio.create_task(publish())
        pieces = [piece async for piece in sse_chunks(broadcast, encoder, asyncio.Event().wait, silence_s)]
        await publishing
        assert b"" not in pieces
        return b"".join(pieces)

    return asyncio.run(asyncio.wait_for(scene(), SOON_S))


@pytest.mark.parametrize("encoder", [*ENCODERS, Counting])
def test_a_replay_through_a_fresh_encoder_has_the_same_bytes(encoder: Callable[[], TurnEncoder]) -> None:
    live = streamed(encoder(), *([event] for event in EVENTS))
    assert live == streamed(encoder(), EVENTS)
    broadcast = TurnBroadcast(REF)
    broadcast.close(*EVENTS)
    assert live == b"".join(past_events(TurnStreamReply(broadcast, encoder()), iter))


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1)


@given(st.lists(st.tuples(st.sampled_from(["s1", "s2", ""]), TEXTS)))
def test_a_text_is_encoded_as_the_json_of_its_event(deltas: list[tuple[str, str]]) -> None:
    encoder = TurnStream()
    for step_id, text in deltas:
        event = StepProgressed(step_type="inference", step_id=step_id, delta=TextDelta(text=text))
        payload = event.model_dump_json().encode()
        assert encoder.encode(Numbered(event, None)) == b'data: {"event":{"payload":' + payload + b"}}\n\n"


@given(st.lists(TEXTS))
def test_texts_that_arrived_together_are_events_of_their_own(texts: list[str]) -> None:
    checked = [StepProgressed(step_type="inference", step_id="s", delta=TextDelta(text=text)) for text in texts]
    made = list(TextsProgressed("s", tuple(texts)).events)
    assert made == checked
    assert [event.model_dump_json() for event in made] == [event.model_dump_json() for event in checked]
    assert [event.model_dump() for event in made] == [event.model_dump() for event in checked]


def test_ids_are_the_numbers_and_an_event_without_one_has_none() -> None:
    plain, with_ids = TurnStream(), TurnStreamWithIds()
    for numbered in EVENTS:
        own = b"" if numbered.number is None else b"id: %d\n" % numbered.number
        assert with_ids.encode(numbered) == own + plain.encode(numbered)
        assert b"id: " not in plain.encode(numbered)


def test_an_encoder_with_state_numbers_what_it_shows_and_hides_the_rest() -> None:
    sent = streamed(Counting(), *([event] for event in EVENTS)).decode().split("\n\n")[:-1]
    assert sent == [
        "event: turn_start\ndata: 0 ",
        "event: step_progress\ndata: 1 Hello",
        "event: step_progress\ndata: 2 Hello again",
        "event: step_complete\ndata: 3 Hello again",
        "event: turn_failed\ndata: 4 Hello again",
    ]


@pytest.mark.parametrize("encoder", [*ENCODERS, Counting])
def test_a_stopping_server_ends_the_stream_as_its_dialect_does(encoder: Callable[[], TurnEncoder]) -> None:
    async def scene() -> list[bytes]:
        broadcast, pieces = TurnBroadcast(REF), []
        begun = asyncio.Event()

        async def read() -> None:
            async for piece in sse_chunks(broadcast, encoder(), asyncio.Event().wait):
                pieces.append(piece)
                begun.set()

        broadcast.publish(EVENTS[0])
        reading = asyncio.create_task(read())
        await begun.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return pieces

    first, last = asyncio.run(asyncio.wait_for(scene(), SOON_S))
    message = "the server is shutting down; turn 't' continues later, read it again"
    if encoder is Counting:
        assert last == b"event: stopped\ndata: 1 " + message.encode() + b"\n\n"
    else:
        error = {"message": message, "code": "turn_continues"}
        assert json.loads(last.removeprefix(b"data: ")) == {"error": error}
    assert first


def test_events_without_a_form_in_the_dialect_do_not_end_a_silence() -> None:
    """A proxy counts bytes: a model that thinks for minutes in events that a dialect hides needs comments, too."""

    class Hiding(Counting):
        def encode(self, numbered: Numbered) -> bytes:
            return b""

    async def scene() -> list[bytes]:
        broadcast, pieces = TurnBroadcast(REF), []

        async def publish() -> None:
            while not broadcast.is_over:
                broadcast.publish(EVENTS[1])
                await asyncio.sleep(0.01)

        publishing = asyncio.create_task(publish())
        async for piece in sse_chunks(broadcast, Hiding(), asyncio.Event().wait, 0.1):
            pieces.append(piece)
            if len(pieces) == 3:
                broadcast.close()
        await publishing
        return pieces

    assert asyncio.run(asyncio.wait_for(scene(), SOON_S)) == [PING] * 3
