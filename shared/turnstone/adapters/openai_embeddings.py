"""Embeddings of a model server that speaks OpenAI's API.

Source: the OpenAI API reference.
"""

import json
import math
from typing import Any

from turnstone.adapters.model_access import ModelAccess
from turnstone.adapters.openai_answer import count_of, mapping_of
from turnstone.adapters.openai_compatible import SILENCE_TIMEOUT_S, OpenAICompatibleInference
from turnstone.domain.errors import ModelFailed
from turnstone.domain.inference import Embedded, EmbeddingRequest
from turnstone.domain.messages import UserMessage
from turnstone.ports import InferenceRequest

Vector = tuple[float, ...]


class OpenAICompatibleEmbeddings:
    """The embedding models behind one address."""

    def __init__(self, base_url: str, access: ModelAccess, timeout_s: float = SILENCE_TIMEOUT_S) -> None:
        """Connect to nothing yet; for what is told see `OpenAICompatibleInference`. Raises ValueError."""
        self._server = OpenAICompatibleInference(base_url, access, timeout_s)

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. Raises ModelFailed, ModelTimedOut."""
        body: dict[str, Any] = {"model": request.model, "input": list(request.texts), "encoding_format": "float"}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        # as messages, so that what the server repeats of them in an error is not shown
        told = tuple(UserMessage(content=text) for text in request.texts)
        asking = InferenceRequest(request.model, told, provider_data=request.provider_data)
        return embedded_in(self._server.posted("/embeddings", {**body, **request.extras}, asking), len(request.texts))


def embedded_in(answer: bytes, count: int) -> Embedded:
    """Return what the server's answer holds. Raises ModelFailed if it is not one vector for each of so many texts."""
    try:
        told = mapping_of(json.loads(answer))
        entries = sorted((int(entry["index"]), _vector(entry["embedding"])) for entry in told["data"])
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise ModelFailed("the model server answered with something that holds no embeddings") from exc
    if [index for index, _ in entries] != list(range(count)):
        raise ModelFailed(f"the model server answered with {len(entries)} embeddings for {count} texts")
    usage = mapping_of(told.get("usage"))
    tokens = count_of(usage.get("prompt_tokens")) or count_of(usage.get("total_tokens"))
    return Embedded(tuple(vector for _, vector in entries), tokens or None)


def _vector(values: Any) -> Vector:
    if not isinstance(values, list) or not values:
        raise ValueError("no vector")
    vector = tuple(map(float, values))
    if not all(map(math.isfinite, vector)):
        raise ValueError("no finite vector")
    return vector
