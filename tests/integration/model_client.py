"""Asking a loopback model server as Turnstone does."""

from typing import Any

from tests.fakes.openai_server import ModelServer
from turnstone.adapters.openai_compatible import OpenAICompatibleInference
from turnstone.domain.messages import Message, UserMessage
from turnstone.ports import InferenceRequest, Inferred, TextChunk

QUESTION = UserMessage(content="a question that nobody else shall read")
KEY = "sk-very-secret-key"


def request(*messages: Message, **fields: Any) -> InferenceRequest:
    return InferenceRequest(**{"model": "m", "messages": messages or (QUESTION,), **fields})


def asked(server: ModelServer, question: InferenceRequest | None = None, timeout_s: float = 5) -> list:
    return list(OpenAICompatibleInference(server.url, KEY, timeout_s).stream(question or request()))


def texts_of(items: list[TextChunk | Inferred]) -> list[str]:
    return [item.text for item in items if isinstance(item, TextChunk)]
