"""Image models of a server with the OpenAI API.

Source: the OpenAI API reference.
"""

from __future__ import annotations

import json
from typing import Any

from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.adapters.models.openai.openai_compatible import SILENCE_TIMEOUT_S, OpenAICompatibleInference
from turnstone.adapters.models.openai.wire_texts import mapping_of
from turnstone.adapters.tools.images.images import ImageRequest, image_of
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest

# these models answer by value only, and refuse the parameter for it
BY_VALUE_ONLY = ("gpt-image-", "chatgpt-image-")


class OpenAICompatibleImages:
    """One image model behind one address."""

    def __init__(
        self, base_url: str, access: ModelAccess, model: str, size: str, timeout_s: float = SILENCE_TIMEOUT_S
    ) -> None:
        """Create the model without connecting; arguments as of `OpenAICompatibleInference`. Raises ValueError."""
        self._server = OpenAICompatibleInference(base_url, access, timeout_s)
        self._model = model
        self._size = size

    def generate(self, request: ImageRequest) -> bytes:
        """Return the image. Raises ModelError."""
        body: dict[str, Any] = {"model": self._model, "prompt": request.prompt, "n": 1, "size": self._size}
        if not self._model.rpartition("/")[2].startswith(BY_VALUE_ONLY):
            body["response_format"] = "b64_json"
        # as a message, so that the server's error text cannot show it
        messages = (UserMessage(content=request.prompt),)
        wrapped = InferenceRequest(self._model, messages, provider_data=request.provider_data, stop=request.stop)
        return _image_in(self._server.posted("/images/generations", body, wrapped))


def _image_in(answer: bytes) -> bytes:
    """Return the image of an answer. Raises ModelFailed."""
    try:
        entry = mapping_of(mapping_of(json.loads(answer))["data"][0])
    except (ValueError, TypeError, LookupError, RecursionError) as exc:
        raise ModelFailed("the model server answered with something that holds no image") from exc
    return image_of(entry.get("b64_json"))
