"""Embeddings of a model server with the OpenAI API.

Source: the OpenAI API reference.
"""

import json
import math
from typing import Any

from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.adapters.models.openai.openai_compatible import SILENCE_TIMEOUT_S, OpenAICompatibleInference
from turnstone.adapters.models.openai.wire_texts import mapping_of
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import Embedded, EmbeddingRequest, InferenceRequest
from turnstone.domain.usage.usage import reported_count

Vector = tuple[float, ...]
MOST_DIMENSIONS = 100_000  # more than any model produces; 64 MB of numbers would become a gigabyte of vectors


class OpenAICompatibleEmbeddings:
    """The embedding models behind one address."""

    def __init__(self, base_url: str, access: ModelAccess, timeout_s: float = SILENCE_TIMEOUT_S) -> None:
        """Create the client without connecting; arguments as of `OpenAICompatibleInference`. Raises ValueError."""
        self._server = OpenAICompatibleInference(base_url, access, timeout_s)

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. Raises ModelFailed, ModelTimedOut."""
        body: dict[str, Any] = {"model": request.model, "input": list(request.texts), "encoding_format": "float"}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        # as messages, so that the server's error text cannot show the input
        messages = tuple(UserMessage(content=text) for text in request.texts)
        wrapped = InferenceRequest(request.model, messages, provider_data=request.provider_data)
        return embedded_in(self._server.posted("/embeddings", {**body, **request.extras}, wrapped), len(request.texts))


def embedded_in(answer: bytes, count: int) -> Embedded:
    """Return the vectors of the answer. Raises ModelFailed unless there is one per text."""
    try:
        parsed = mapping_of(json.loads(answer))
        listed = {int(entry["index"]): entry["embedding"] for entry in parsed["data"]}
        if len(parsed["data"]) != count:
            raise ModelFailed(f"the model server answered with {len(parsed['data'])} embeddings for {count} texts")
        if set(listed) != set(range(count)):
            raise ModelFailed("the model server answered with embeddings whose indexes are not those of the texts")
        vectors = tuple(_vector(listed[index]) for index in range(count))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as exc:
        raise ModelFailed("the model server answered with something that holds no embeddings") from exc
    usage = mapping_of(parsed.get("usage"))
    tokens = reported_count(usage.get("prompt_tokens")) or reported_count(usage.get("total_tokens"))
    return Embedded(vectors, tokens or None)


def _vector(values: Any) -> Vector:
    if not isinstance(values, list) or not 0 < len(values) <= MOST_DIMENSIONS:
        raise ValueError("no vector")
    vector = tuple(map(float, values))
    if not all(map(math.isfinite, vector)):
        raise ValueError("no finite vector")
    return vector
