"""Image models of Amazon Bedrock, through InvokeModel.

Source: the inference parameters of these models in Bedrock's user guide.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from turnstone.adapters.aws.bedrock_errors import FAILURES, BedrockCall, refusal_of
from turnstone.adapters.outgoing.connections import Line, cuttable_by
from turnstone.adapters.outgoing.quoting import quoted
from turnstone.adapters.tools.images.bedrock_image_bodies import body_of
from turnstone.adapters.tools.images.images import MAX_IMAGE_BYTES, ImageRequest, image_of
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.values.cancellation import StopSignal

MAX_ANSWER_BYTES = 2 * MAX_IMAGE_BYTES


class BedrockImages:
    """One image model of one region."""

    def __init__(self, client: Callable[[], Any], model: str, size: str) -> None:
        """Create the model without connecting.

        Args:
            client: returns a client from `build_bedrock_client`: its connections can be cut.

        Raises:
            ValueError: the model is not supported, or not in that size.
        """
        self._client = client
        self._model = model
        self._body = body_of(model, size)

    def generate(self, request: ImageRequest) -> bytes:
        """Return the image. Raises ModelError."""
        line = Line()
        with (request.stop or StopSignal()).heeded_by(line.cut), cuttable_by(line):
            return _image_in(self._answer(request))

    def _answer(self, request: ImageRequest) -> bytes:
        client = self._client()
        quote = partial(quoted, messages=(UserMessage(content=request.prompt),))
        try:
            body: Any = client.invoke_model(
                modelId=self._model,
                contentType="application/json",
                accept="application/json",
                body=json.dumps(self._body(request)).encode(),
            )["body"]
            try:
                answer: bytes = body.read(MAX_ANSWER_BYTES + 1)
            finally:
                body.close()
        except FAILURES as failure:
            refused = refusal_of(failure, BedrockCall(self._model, client.meta.region_name, quote))
            raise refused.error from refused.cause
        if len(answer) > MAX_ANSWER_BYTES:
            raise ModelFailed(f"the answer of the image model is over the limit of {MAX_ANSWER_BYTES} bytes")
        return answer


def _image_in(answer: bytes) -> bytes:
    """Return the image of an answer. Raises ModelFailed, with the provider's reason if it withheld the image."""
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ModelFailed("the image model answered with something that holds no image")
    reasons = parsed.get("finish_reasons")
    withheld = parsed.get("error") or (reasons[0] if isinstance(reasons, list) and reasons else None)
    if withheld:
        raise ModelFailed(f"the image model made no image: {quoted(str(withheld), ())}")
    images = parsed.get("images")
    return image_of(images[0] if isinstance(images, list) and images else None)
