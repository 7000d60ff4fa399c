"""Requests to a loopback model server as Turnstone sends them."""

import time
from threading import Timer
from typing import Any

from tests.fakes.models.openai_server import ModelServer
from turnstone.adapters.models.openai.openai_compatible import OpenAICompatibleInference
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk
from turnstone.domain.values.cancellation import StopSignal

QUESTION = UserMessage(content="a question that nobody else shall read")
KEY = "sk-very-secret-key"


def request(*messages: Message, **fields: Any) -> InferenceRequest:
    return InferenceRequest(**{"model": "m", "messages": messages or (QUESTION,), **fields})


def streamed_answer(server: ModelServer, question: InferenceRequest | None = None, timeout_s: float = 5) -> list:
    return list(OpenAICompatibleInference(server.url, KEY, timeout_s).stream(question or request()))


def texts_of(items: list[TextChunk | Inferred]) -> list[str]:
    return [item.text for item in items if isinstance(item, TextChunk)]


class LateStop:
    """A signal that is given a moment after something has begun."""

    def __init__(self) -> None:
        self.signal = StopSignal()
        self._given_at_s = 0.0

    def give_soon(self) -> None:
        Timer(0.3, self._give).start()

    @property
    def since_s(self) -> float:
        """Seconds since it was given."""
        return time.monotonic() - self._given_at_s

    def _give(self) -> None:
        self._given_at_s = time.monotonic()
        self.signal.set()
