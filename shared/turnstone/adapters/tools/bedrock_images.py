"""Image models of Amazon Bedrock: Nova Canvas, Titan Image Generator, and Stability's, asked by InvokeModel.

Source: the inference parameters of these models in Bedrock's user guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from math import gcd
from typing import Any

from turnstone.adapters.bedrock_errors import FAILURES, Asked, refusal_of
from turnstone.adapters.connections import Line, asking_over
from turnstone.adapters.quoting import quoted
from turnstone.adapters.tools.images import MAX_IMAGE_BYTES, ImageRequest, image_of, sides_of
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages import UserMessage
from turnstone.domain.stopping import StopSignal

MAX_ANSWER_BYTES = 2 * MAX_IMAGE_BYTES
# the model, maybe behind the region of an inference profile
AMAZON = re.compile(r"(?:[a-z-]+\.)?amazon\.(?:nova-canvas|titan-image-generator)-")
STABILITY = re.compile(r"(?:[a-z-]+\.)?stability\.(?:stable-image-(?:core|ultra)|sd3)-")
RATIOS = ("16:9", "1:1", "21:9", "2:3", "3:2", "4:5", "5:4", "9:16", "9:21")
Body = Callable[[ImageRequest], Mapping[str, Any]]


class BedrockImages:
    """One image model of one region."""

    def __init__(self, client: Callable[[], Any], model: str, size: str) -> None:
        """Ask for nothing yet.

        Args:
            client: returns a client that `build_bedrock_client` made: its lines can be cut.

        Raises:
            ValueError: how the model is asked isn't known, or it makes no images of that size.
        """
        self._client = client
        self._model = model
        self._body = body_of(model, size)

    def generate(self, request: ImageRequest) -> bytes:
        """Return the image. Raises ModelError."""
        line = Line()
        with (request.stop or StopSignal()).heeded_by(line.cut), asking_over(line):
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
            refused = refusal_of(failure, Asked(self._model, client.meta.region_name, quote))
            raise refused.error from refused.cause
        if len(answer) > MAX_ANSWER_BYTES:
            raise ModelFailed(f"the answer of the image model is over the limit of {MAX_ANSWER_BYTES} bytes")
        return answer


def body_of(model: str, size: str) -> Body:
    """Return what makes the bodies that a model is asked with.

    Raises:
        ValueError: how it is asked isn't known, or it makes no images of that size.
    """
    width, height = sides_of(size)
    if AMAZON.match(model):
        return partial(_body_for_amazon, width=width, height=height)
    if STABILITY.match(model):
        divisor = gcd(width, height)
        ratio = f"{width // divisor}:{height // divisor}"
        if ratio not in RATIOS:
            raise ValueError(f"size: {model!r} makes images of these ratios only: {', '.join(RATIOS)}")
        return partial(_body_for_stability, ratio=ratio)
    raise ValueError(
        f"model: how {model!r} of Bedrock makes images isn't known here; those of amazon.nova-canvas, "
        "amazon.titan-image-generator, stability.stable-image-core, stability.stable-image-ultra and stability.sd3 are"
    )


def _body_for_amazon(request: ImageRequest, width: int, height: int) -> Mapping[str, Any]:
    config = {"numberOfImages": 1, "width": width, "height": height, "seed": request.seed}
    told = {"text": request.prompt}
    return {"taskType": "TEXT_IMAGE", "textToImageParams": told, "imageGenerationConfig": config}


def _body_for_stability(request: ImageRequest, ratio: str) -> Mapping[str, Any]:
    return {"prompt": request.prompt, "aspect_ratio": ratio, "output_format": "png", "seed": request.seed}


def _image_in(answer: bytes) -> bytes:
    """Return the image that an answer holds. Raises ModelFailed, saying why it was withheld if that is told."""
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ModelFailed("the image model answered with something that holds no image")
    reasons = told.get("finish_reasons")
    withheld = told.get("error") or (reasons[0] if isinstance(reasons, list) and reasons else None)
    if withheld:
        raise ModelFailed(f"the image model made no image: {quoted(str(withheld), ())}")
    images = told.get("images")
    return image_of(images[0] if isinstance(images, list) and images else None)
