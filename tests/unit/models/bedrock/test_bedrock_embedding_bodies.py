"""Requests to the embedding models of Bedrock, and their answers.

Covers: adapters/models/bedrock/bedrock_embedding_bodies
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnstone.adapters.models.bedrock.bedrock_embedding_bodies import bodies_of, shortened
from turnstone.domain.errors import ModelFailed, Unsupported
from turnstone.domain.models.requests import EmbeddingRequest

TITAN_1, TITAN_2 = "amazon.titan-embed-text-v1", "amazon.titan-embed-text-v2:0"
COHERE = "cohere.embed-multilingual-v3"
NO_ANSWERS = (b"", b"[]", b"no", b"[" * 100_000, b"{}", b'{"embedding": []}', b'{"embedding": ["x"]}')
TOO_FEW = (b'{"embedding": [NaN]}', b'{"embeddings": [[1]]}', b'{"embeddings": [[1], []]}', b'{"embeddings": [[1], 2]}')


def request(model: str, **fields: Any) -> EmbeddingRequest:
    return EmbeddingRequest(model, ("a", "b"), **fields)


def test_titan_takes_one_text_and_the_second_version_dimensions() -> None:
    assert bodies_of(request(TITAN_1, dimensions=256)).body(["a"]) == {"inputText": "a"}
    assert bodies_of(request(TITAN_2)).body(["a"]) == {"inputText": "a"}
    assert bodies_of(request(TITAN_2, dimensions=256)).body(["a"]) == {"inputText": "a", "dimensions": 256}
    assert bodies_of(request(TITAN_2)).most == 1


@pytest.mark.parametrize("purpose", ["document", "query"])
@pytest.mark.parametrize("model", [COHERE, f"eu.{COHERE}", "cohere.embed-english-v3"])
def test_cohere_takes_many_texts_and_their_purpose(model: str, purpose: Any) -> None:
    bodies = bodies_of(request(model, purpose=purpose))
    body = {"texts": ["a", "b"], "input_type": f"search_{purpose}", "truncate": "END"}
    assert (bodies.body(["a", "b"]), bodies.most, bodies.longest) == (body, 96, 2_048)


@pytest.mark.parametrize("model", ["amazon.titan-embed-image-v1", "anthropic.claude-x-v1:0", "cohere.embed-v4:0"])
def test_another_model_is_refused_with_those_that_are_supported(model: str) -> None:
    with pytest.raises(Unsupported, match=rf"model: '{model}' .*choose amazon.titan-embed"):
        bodies_of(request(model))


def test_vectors_and_tokens_are_read() -> None:
    titan = json.dumps({"embedding": [1, 2.5], "inputTextTokenCount": 3}).encode()
    assert bodies_of(request(TITAN_2)).vectors(titan, 1) == ([(1.0, 2.5)], 3)
    plain, typed = {"embeddings": [[1], [2]]}, {"embeddings": {"float": [[1], [2]]}}
    for answer in (plain, typed):
        assert bodies_of(request(COHERE)).vectors(json.dumps(answer).encode(), 2) == ([(1.0,), (2.0,)], None)


@pytest.mark.parametrize("answer", [*NO_ANSWERS, *TOO_FEW])
@pytest.mark.parametrize("model", [TITAN_1, COHERE])
def test_an_answer_without_a_vector_for_each_text_is_a_failure(model: str, answer: bytes) -> None:
    with pytest.raises(ModelFailed, match="holds no embeddings"):
        bodies_of(request(model)).vectors(answer, 2)


def test_texts_are_divided_at_the_limit_of_characters() -> None:
    assert shortened(["", "abcde", "abc"], 3) == (["", "abc", "de", "abc"], [1, 2, 1])
    assert shortened(["", "abcde"], None) == (["", "abcde"], [1, 1])
