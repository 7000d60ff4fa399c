"""A streamed answer of a model: its bounded buffer for a slow client, and the end of the wait for a first one.

Covers: dialects/openai/chat/chat_replies, dialects/openai/chat/completions, http/envelopes, http/replies,
  http/streams/model_answers, http/streams/pieces, services/models/answer_stream
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest

from tests.support.engine.harness import eventually
from turnstone.dialects.openai.chat.chat_replies import ChatCompletionEncoder
from turnstone.dialects.openai.chat.completions import CompletionEncoder, CreateCompletion
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import Inferred
from turnstone.domain.values.cancellation import StopSignal
from turnstone.http.envelopes import DETAIL
from turnstone.http.replies import ModelReply, ModelStreamReply, Reply
from turnstone.http.streams.model_answers import answered
from turnstone.http.streams.pieces import PIECE_BYTES
from turnstone.services.models.answer_stream import MOST_WAITING_BYTES, AnswerStream, NewParts, Part
from turnstone.services.threads.publisher import Subscriber

TEXT = "x" * 10_000
SOON_S = 5.0
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Model:
    """An answer of so many texts; counts those drawn."""

    def __init__(self, texts: int, error: Exception | None = None) -> None:
        self._texts = texts
        self._error = error
        self.drawn = 0
        self.is_closed = Event()

    def __call__(self) -> Generator[Part, None, None]:
        try:
            for _ in range(self._texts):
                self.drawn += 1
                yield TEXT
            if self._error:
                raise self._error
            yield Inferred(CompletionMessage(content=TEXT * self._texts, stop_reason="end_of_turn"))
        finally:
            self.is_closed.set()


@contextmanager
def running(model: Model, *, is_listened_to: bool = True) -> Iterator[tuple[AnswerStream, Thread]]:
    answering = AnswerStream("a1", AT, model(), StopSignal())
    if is_listened_to:
        answering.subscribe(lambda: None)
    thread = Thread(target=answering.run)
    thread.start()
    try:
        yield answering, thread
    finally:
        answering.stop()
        thread.join(SOON_S)
        assert not thread.is_alive()


def taken_from(answering: AnswerStream) -> NewParts:
    return Subscriber(answering, lambda: None).take()


def test_no_more_is_drawn_than_the_buffer_of_an_idle_client_holds() -> None:
    model = Model(5_000)
    with running(model) as (_, thread):
        most = MOST_WAITING_BYTES // len(TEXT) + 1
        eventually(lambda: model.drawn == most)
        thread.join(0.2)
        assert model.drawn == most
        assert thread.is_alive(), "it waits in its place"
    assert model.is_closed.is_set()


def test_taking_parts_makes_room_and_all_parts_come_in_order() -> None:
    model = Model(500)
    taken: list[Part] = []
    with running(model) as (answering, thread):
        while True:
            batch = taken_from(answering)
            taken += batch.parts
            if batch.is_last:
                break
        thread.join(SOON_S)
        assert not thread.is_alive()
    *texts, whole = taken
    assert texts == [TEXT] * 500
    assert isinstance(whole, Inferred)


def test_a_long_whole_answer_is_taken_alone_and_its_thread_waits_until_then() -> None:
    with running(Model(40)) as (answering, thread):
        batches = []
        while not batches or not batches[-1].parts or not isinstance(batches[-1].parts[-1], Inferred):
            thread.join(0.02)
            assert thread.is_alive()
            batches.append(taken_from(answering))
        assert len(batches[-1].parts) == 1
        assert not any(each.is_last for each in batches)
        thread.join(SOON_S)
        assert not thread.is_alive()
        assert taken_from(answering).is_last


def test_an_error_comes_behind_all_texts() -> None:
    with running(Model(3, ModelFailed("broken"))) as (answering, thread):
        thread.join(SOON_S)
        batch = taken_from(answering)
    assert (list(batch.parts), str(batch.error), batch.is_last) == ([TEXT] * 3, "broken", True)


def test_an_answer_without_a_subscriber_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstone.services.models.answer_stream.SUBSCRIBED_WITHIN_S", 0.2)
    model = Model(500)
    with running(model, is_listened_to=False) as (_, thread):
        thread.join(SOON_S)
        assert not thread.is_alive()
    assert model.drawn < 500
    assert model.is_closed.is_set()


# ---- over HTTP


def test_the_encoder_of_a_stream_does_not_hold_the_echoed_prompt() -> None:
    body = CreateCompletion(model="m", prompt=TEXT, echo=True, stream=True)
    assert body.to_texts().are_echoed
    encoder = CompletionEncoder(body, "a1", AT)
    assert TEXT not in repr(vars(encoder))
    assert encoder.begun() == b""


async def _never() -> Mapping[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _stream(answering: AnswerStream) -> AsyncGenerator[bytes]:
    reply = ModelStreamReply(answering, ChatCompletionEncoder("m", "a1", AT))
    stream = await answered(reply, _never, DETAIL, {})
    assert not isinstance(stream, Reply)
    return stream


@pytest.mark.parametrize("pieces", [0, 1, 3, 20])
def test_a_stalled_stream_holds_little_and_frees_its_thread_when_it_is_closed(pieces: int) -> None:
    model = Model(5_000)
    with running(model, is_listened_to=False) as (answering, thread):
        taken = 0

        async def read() -> None:
            nonlocal taken
            chunks = await _stream(answering)
            for _ in range(pieces):
                taken += len(await anext(chunks))
            await asyncio.sleep(0.2)
            held = model.drawn * len(TEXT) - taken
            assert held <= 2 * MOST_WAITING_BYTES + 4 * PIECE_BYTES < 1_000_000
            assert thread.is_alive()
            await anext(chunks)
            await chunks.aclose()

        asyncio.run(read())
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_a_stream_that_is_read_is_complete_and_so_is_a_whole_answer() -> None:
    async def read(answering: AnswerStream) -> bytes:
        return b"".join([piece async for piece in await _stream(answering)])

    async def whole(answering: AnswerStream) -> Reply:
        reply = await answered(ModelReply(answering, ChatCompletionEncoder("m", "a1", AT)), _never, DETAIL, {})
        assert isinstance(reply, Reply)
        return reply

    with running(Model(300), is_listened_to=False) as (answering, _):
        streamed = asyncio.run(read(answering))
    assert (streamed.count(TEXT.encode()), streamed.endswith(b"data: [DONE]\n\n")) == (300, True)
    with running(Model(300), is_listened_to=False) as (answering, _):
        assert asyncio.run(whole(answering)).body.count(TEXT.encode()) == 300
