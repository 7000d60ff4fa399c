"""A model server that is slow to take a request, or that never stops answering."""

import socket

import pytest

from tests.fakes.openai_answers import text_chunk
from tests.fakes.openai_server import ModelServer
from turnstone.adapters import openai_compatible
from turnstone.adapters.connections import SEND_TIMEOUT_S, PatientHTTPConnection
from turnstone.adapters.openai_compatible import OpenAICompatibleInference
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages import UserMessage
from turnstone.ports import InferenceRequest


def test_a_request_may_take_longer_to_send_than_to_connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = PatientHTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=1)
        connection.connect()
        assert connection.sock.gettimeout() == SEND_TIMEOUT_S
        connection.sock.settimeout(1)
        connection.putrequest("POST", "/")
        assert connection.sock.gettimeout() == SEND_TIMEOUT_S
        connection.close()


def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "MAX_ANSWER_BYTES", 100_000)
    with ModelServer([[text_chunk("word ") for _ in range(5_000)]]) as server:
        inference = OpenAICompatibleInference(server.url, None)
        asked = InferenceRequest(model="m", messages=(UserMessage(content="hello"),))
        with pytest.raises(ModelFailed, match="without end"):
            list(inference.stream(asked))
