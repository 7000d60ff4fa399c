"""Embedding models of Bedrock against a loopback server: batches, purposes, retries and failures.

Covers: adapters/models/bedrock/bedrock_embeddings, bootstrap/embeddings
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models import bedrock_frames as frames
from tests.fakes.models.bedrock_server import BedrockServer
from tests.fakes.models.openai_answers import HangUp, HttpAnswer
from tests.support.models.bedrock_client import SECRET, bedrock_adapters
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.bootstrap.embeddings import build_embeddings
from turnstone.bootstrap.models import ProviderDeps
from turnstone.domain.errors import ModelBusy, ModelFailed, ModelRefused, Unsupported
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.models.routing import Target
from turnstone.domain.registry.catalogue import Catalogue

__all__ = ["bedrock_adapters"]
pytestmark = pytest.mark.usefixtures("bedrock_adapters")
TITAN, COHERE = "amazon.titan-embed-text-v2:0", "cohere.embed-english-v3"
BUSY = frames.refusal(429, "ThrottlingException", "busy")
TITAN_ANSWER = HttpAnswer(200, {"embedding": [1.0, 0.0], "inputTextTokenCount": 2})


def cohere(parameters: dict[str, Any]) -> HttpAnswer:
    """Answer with the length of each text as its vector."""
    vectors = [[float(len(text)), 1.0] for text in parameters["texts"]]
    headers = {"x-amzn-bedrock-input-token-count": str(len(vectors))}
    return HttpAnswer(200, {"embeddings": vectors, "response_type": "embeddings_floats"}, headers)


def embedded(monkeypatch: pytest.MonkeyPatch, server: BedrockServer, *texts: str, **fields: Any) -> Embedded:
    """Return what the provider of an operator's file makes, as a server calls it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
    fields = {"model": TITAN, **fields}
    providers = {"aws": {"type": "bedrock", "region": "eu-central-1", "timeout_seconds": 5}}
    catalogue = Catalogue.model_validate({"default_provider": "aws", "providers": providers})
    embeddings = build_embeddings(catalogue, ProviderDeps(5, lambda *_: None, AwsClients))
    return embeddings.embed(EmbeddingRequest(texts=texts, targets=(Target("aws", fields["model"]),), **fields))


def test_titan_is_called_for_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer([TITAN_ANSWER] * 2) as server:
        assert embedded(monkeypatch, server, "a", "b", dimensions=256) == Embedded(((1.0, 0.0),) * 2, 4)
    assert server.model_requests == [(TITAN, "invoke")] * 2
    assert server.requests == [{"inputText": text, "dimensions": 256} for text in "ab"]
    assert server.headers[0]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")


def test_cohere_is_called_for_96_texts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer(cohere) as server:
        made = embedded(monkeypatch, server, *("x" * (at + 1) for at in range(200)), model=COHERE, purpose="query")
    assert made == Embedded(tuple((float(at + 1), 1.0) for at in range(200)), 200)
    assert [len(each["texts"]) for each in server.requests] == [96, 96, 8]
    assert {each["input_type"] for each in server.requests} == {"search_query"}


def test_a_text_over_coheres_limit_has_the_mean_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer(cohere) as server:
        made = embedded(monkeypatch, server, "ab", "x" * 3_048, "abc", model=COHERE)
    assert [len(text) for text in server.requests[0]["texts"]] == [2, 2_048, 1_000, 3]
    assert {each["input_type"] for each in server.requests} == {"search_document"}
    middle = (2_048 * 2_048 + 1_000 * 1_000) / 3_048
    assert made.vectors == ((2.0, 1.0), (pytest.approx(middle), 1.0), (3.0, 1.0))


@pytest.mark.parametrize("passing", [BUSY, frames.refusal(503, "ServiceUnavailableException", "later"), HangUp()])
def test_a_transient_failure_is_retried_at_most_twice(monkeypatch: pytest.MonkeyPatch, passing: Any) -> None:
    with BedrockServer([passing, passing, TITAN_ANSWER]) as server:
        assert embedded(monkeypatch, server, "a").vectors == ((1.0, 0.0),)
    with BedrockServer([passing] * 4) as server, pytest.raises(ModelFailed):
        embedded(monkeypatch, server, "a")
    assert len(server.requests) == 3


def test_throttling_and_refusals_are_the_errors_of_other_models(monkeypatch: pytest.MonkeyPatch) -> None:
    late = frames.refusal(429, "ThrottlingException", "busy", {"retry-after": "60"})
    with BedrockServer([late]) as server, pytest.raises(ModelBusy) as busy:
        embedded(monkeypatch, server, "a")
    assert busy.value.retry_after_s == 60
    invalid = frames.refusal(400, "ValidationException", "the text 'a private one' is too long")
    with BedrockServer([invalid]) as server, pytest.raises(ModelRefused) as refused:
        embedded(monkeypatch, server, "a private one")
    assert "private" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_an_answer_that_holds_no_vectors_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer([HttpAnswer(200, {"embedding": []})]) as server, pytest.raises(ModelFailed, match="no embed"):
        embedded(monkeypatch, server, "a")


def test_a_model_without_embeddings_is_refused_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with BedrockServer([]) as server, pytest.raises(Unsupported, match=r"choose amazon\.titan-embed"):
        embedded(monkeypatch, server, "a", model="anthropic.claude-x-v1:0")
    assert server.requests == []
