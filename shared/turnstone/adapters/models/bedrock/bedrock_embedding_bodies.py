"""Requests to the embedding models of Bedrock, and their answers: Titan's and Cohere's.

Source: the inference parameters of these models in Bedrock's user guide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from turnstone.domain.errors import ModelFailed, Unsupported
from turnstone.domain.models.requests import EmbeddingRequest
from turnstone.domain.usage.usage import reported_count

Vector = tuple[float, ...]
COHERE_TEXTS = 96
COHERE_CHARACTERS = 2_048
NO_VECTORS = "the embedding model answered with something that holds no embeddings"


class EmbeddingBodies(NamedTuple):
    """The form of a model's requests and answers.

    Attributes:
        most: texts of one request.
        longest: characters of a text, None without a limit.
        body: returns the request for these texts.
        vectors: returns the vectors of an answer to so many texts, and its number of tokens, None if not reported.
    """

    most: int
    longest: int | None
    body: Callable[[Sequence[str]], dict[str, Any]]
    vectors: Callable[[bytes, int], tuple[list[Vector], int | None]]


def bodies_of(request: EmbeddingRequest) -> EmbeddingBodies:
    """Return the form of the request's model. Raises Unsupported for a model of another family."""
    model = request.model
    if "titan-embed-text-v2" in model:
        sizes = {} if request.dimensions is None else {"dimensions": request.dimensions}
        return EmbeddingBodies(1, None, lambda texts: {"inputText": texts[0], **sizes}, _of_titan)
    if "titan-embed" in model and "image" not in model:
        return EmbeddingBodies(1, None, lambda texts: {"inputText": texts[0]}, _of_titan)
    if "cohere.embed-english-v3" in model or "cohere.embed-multilingual-v3" in model:
        kind = f"search_{request.purpose}"
        return EmbeddingBodies(
            COHERE_TEXTS,
            COHERE_CHARACTERS,
            lambda texts: {"texts": list(texts), "input_type": kind, "truncate": "END"},
            _of_cohere,
        )
    supported = "amazon.titan-embed-text-v1 and v2, cohere.embed-english-v3 or cohere.embed-multilingual-v3"
    raise Unsupported(
        f"model: {model!r} makes no embeddings that this server can request; choose {supported}", ("model",)
    )


def shortened(texts: Sequence[str], longest: int | None) -> tuple[list[str], list[int]]:
    """Return all texts in parts within the limit of characters, and the number of parts of each."""
    if longest is None:
        return list(texts), [1] * len(texts)
    divided = [[text[at : at + longest] for at in range(0, max(len(text), 1), longest)] for text in texts]
    return [part for parts in divided for part in parts], [len(parts) for parts in divided]


def _of_titan(answer: bytes, count: int) -> tuple[list[Vector], int | None]:
    parsed = _parsed(answer)
    return [_vector(parsed.get("embedding"))] * count, reported_count(parsed.get("inputTextTokenCount"))


def _of_cohere(answer: bytes, count: int) -> tuple[list[Vector], int | None]:
    listed = _parsed(answer).get("embeddings")
    if isinstance(listed, dict):  # of an answer in several types of numbers
        listed = listed.get("float")
    if not isinstance(listed, list) or len(listed) != count:
        raise ModelFailed(NO_VECTORS)
    return [_vector(each) for each in listed], None


def _parsed(answer: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ModelFailed(NO_VECTORS)
    return parsed


def _vector(values: Any) -> Vector:
    try:
        vector = tuple(map(float, values if isinstance(values, list) else ()))
    except (TypeError, ValueError, OverflowError):
        vector = ()
    if not vector or not all(map(math.isfinite, vector)):
        raise ModelFailed(NO_VECTORS)
    return vector
