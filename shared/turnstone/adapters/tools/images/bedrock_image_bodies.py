"""Request bodies of Bedrock's image models: Nova Canvas, Titan Image Generator, and those of Stability AI.

Source: the inference parameters of these models in Bedrock's user guide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import gcd
from typing import Any

from turnstone.adapters.tools.images.images import ImageRequest

# the model, possibly after the region of an inference profile
AMAZON = re.compile(r"(?:[a-z-]+\.)?amazon\.(?:nova-canvas|titan-image-generator)-")
STABILITY = re.compile(r"(?:[a-z-]+\.)?stability\.(?:stable-image-(?:core|ultra)|sd3)-")
RATIOS = ("16:9", "1:1", "21:9", "2:3", "3:2", "4:5", "5:4", "9:16", "9:21")
WriteBody = Callable[[ImageRequest], Mapping[str, Any]]


def body_of(model: str, size: str) -> WriteBody:
    """Return the function that creates the model's request bodies.

    Raises:
        ValueError: the model is not supported, or not in that size.
    """
    width, height = map(int, size.split("x"))
    if AMAZON.match(model):
        return partial(_body_for_amazon, width=width, height=height)
    if STABILITY.match(model):
        divisor = gcd(width, height)
        ratio = f"{width // divisor}:{height // divisor}"
        if ratio not in RATIOS:
            raise ValueError(f"size: {model!r} makes images of these ratios only: {', '.join(RATIOS)}")
        return partial(_body_for_stability, ratio=ratio)
    raise ValueError(
        f"model: how {model!r} of Bedrock makes images is unknown to this server; those of amazon.nova-canvas, "
        "amazon.titan-image-generator, stability.stable-image-core, stability.stable-image-ultra and stability.sd3 are"
    )


def _body_for_amazon(request: ImageRequest, width: int, height: int) -> Mapping[str, Any]:
    config = {"numberOfImages": 1, "width": width, "height": height, "seed": request.seed}
    text_params = {"text": request.prompt}
    return {"taskType": "TEXT_IMAGE", "textToImageParams": text_params, "imageGenerationConfig": config}


def _body_for_stability(request: ImageRequest, ratio: str) -> Mapping[str, Any]:
    return {"prompt": request.prompt, "aspect_ratio": ratio, "output_format": "png", "seed": request.seed}
