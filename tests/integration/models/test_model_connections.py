"""A model server that is slow to take a request, or that never stops answering.

Covers: adapters/outgoing/connections, adapters/outgoing/exchanges, adapters/models/openai/openai_compatible
"""

import socket
import time
from contextlib import suppress
from threading import Event, Thread

import pytest

from tests.fakes.models.openai_answers import HttpAnswer, Item, Pause, ending, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.models.model_client import LateStop
from turnstone.adapters.models.openai import openai_compatible
from turnstone.adapters.models.openai.openai_compatible import OpenAICompatibleInference
from turnstone.adapters.outgoing.connections import SEND_TIMEOUT_S, Line
from turnstone.domain.errors import ModelBusy, ModelFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.values.cancellation import StopSignal


def test_a_request_may_take_longer_to_send_than_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float | None] = []

    def noted(self: Line, sock: socket.socket) -> None:
        timeouts.append(sock.gettimeout())

    monkeypatch.setattr(Line, "hold", noted)
    with ModelServer([text_answer("one"), text_answer("two")]) as server:
        inference = OpenAICompatibleInference(server.url, None, timeout_s=5)
        for _ in range(2):
            list(inference.stream(question(StopSignal())))
    assert timeouts == [SEND_TIMEOUT_S] * 2


def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "MAX_ANSWER_BYTES", 100_000)
    with ModelServer([[text_chunk("word ") for _ in range(5_000)]]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        question_without_end = InferenceRequest(model="m", messages=(UserMessage(content="hello"),))
        with pytest.raises(ModelFailed, match="without end"):
            list(inference.stream(question_without_end))


def test_a_chunk_of_a_negative_length_is_not_read_as_endless() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"
    sent = 0

    def answer(listening: socket.socket) -> None:
        nonlocal sent
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(head)
            while sent < 200 << 20:
                sent += connection.send(b"x" * 65_536)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = Thread(target=answer, args=(listening,), daemon=True)
        serving.start()
        inference = OpenAICompatibleInference(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", None)
        with pytest.raises(ModelFailed, match="broke off"):
            list(inference.stream(InferenceRequest(model="m", messages=(UserMessage(content="hello"),))))
        serving.join(AT_ONCE_S)
    assert sent < 20 << 20


SILENCE_S = 20
AT_ONCE_S = 5


def question(stop: StopSignal) -> InferenceRequest:
    return InferenceRequest(model="m", messages=(UserMessage(content="hello"),), stop=stop)


@pytest.mark.parametrize(
    "answer",
    [(Pause(SILENCE_S), *text_answer("late")), (text_chunk("a word"), Pause(SILENCE_S), *ending("stop"))],
    ids=["before its answer", "within its answer"],
)
def test_a_caller_waiting_for_a_silent_model_is_freed_by_the_signal_without_a_retry(answer: tuple[Item, ...]) -> None:
    stop = StopSignal()
    received, failed = Event(), Event()

    def reply(_: object) -> tuple[Item, ...]:
        received.set()
        return answer

    with ModelServer(reply) as server:
        inference = OpenAICompatibleInference(server.url, None)

        def wait() -> None:
            with pytest.raises(ModelFailed):
                list(inference.stream(question(stop)))
            failed.set()

        waiting = Thread(target=wait)
        waiting.start()
        assert received.wait(AT_ONCE_S)
        assert not failed.wait(0.3)
        stop.set()
        assert failed.wait(AT_ONCE_S)
        waiting.join()
        assert len(server.requests) == 1


def test_the_signal_ends_the_wait_for_a_busy_model_without_a_retry() -> None:
    stop = LateStop()

    def reply(_: object) -> HttpAnswer:
        stop.give_soon()
        return HttpAnswer(429, {"error": "busy"}, {"Retry-After": "4"})

    with ModelServer(reply) as server, pytest.raises(ModelBusy):
        list(OpenAICompatibleInference(server.url, None).stream(question(stop.signal)))
    assert stop.since_s < 3
    assert len(server.requests) == 1


def test_a_signal_that_was_set_before_the_request_cuts_the_connection_once_it_is_open() -> None:
    stop = StopSignal()
    stop.set()
    with ModelServer([(Pause(SILENCE_S), *text_answer("late"))]) as server:
        began = time.monotonic()
        with pytest.raises(ModelFailed):
            list(OpenAICompatibleInference(server.url, None).stream(question(stop)))
        assert time.monotonic() - began < AT_ONCE_S
        while (
            not server.connections or server.open_connections
        ):  # the server accepts the connection only after it was cut
            assert time.monotonic() - began < AT_ONCE_S
            time.sleep(0.01)


def test_a_signal_after_the_answer_leaves_the_kept_connection_to_the_next_request() -> None:
    stop = StopSignal()
    with ModelServer([text_answer("one"), text_answer("two")]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        list(inference.stream(question(stop)))
        stop.set()
        assert [type(item).__name__ for item in inference.stream(question(StopSignal()))] == ["TextChunk", "Inferred"]
