"""Requests to a loopback Bedrock as Turnstone sends them: signed, by a client of botocore."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.bedrock_server import BedrockServer
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.models.bedrock.bedrock import BedrockInference
from turnstone.adapters.models.bedrock.bedrock_client import build_bedrock_client
from turnstone.adapters.models.bedrock.bedrock_wire import BedrockOptions
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk

MODEL = "eu.anthropic.claude-x-v1:0"
REGION = "eu-central-1"
KEY = "AKIAVERYSECRET"
SECRET = "not-to-be-seen-anywhere"
QUESTION = UserMessage(content="a question that nobody else shall read")


class BedrockAdapters:
    """Makes adapters of a Bedrock server on loopback."""

    def __init__(self, environment: pytest.MonkeyPatch) -> None:
        self._environment = environment

    def inference(self, url: str, options: BedrockOptions | None = None, timeout_s: float = 5) -> BedrockInference:
        self._environment.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", url)
        return BedrockInference(build_bedrock_client(AwsClients(), REGION, timeout_s), options)

    def streamed(
        self, server: BedrockServer, question: InferenceRequest | None = None, options: BedrockOptions | None = None
    ) -> list[TextChunk | Inferred]:
        return list(self.inference(server.url, options).stream(question or request()))


@pytest.fixture
def bedrock_adapters(monkeypatch: pytest.MonkeyPatch) -> BedrockAdapters:
    """Sign with made-up credentials, and with none of this machine."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    return BedrockAdapters(monkeypatch)


def request(*messages: Message, **fields: Any) -> InferenceRequest:
    return InferenceRequest(**{"model": MODEL, "messages": messages or (QUESTION,), **fields})
