"""Port of image models: their requests, and the accepted image formats."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from turnstone.domain.errors import ModelFailed
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.values.image_files import ImageKind, find_image_kind

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

MAX_IMAGE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """A request to an image model.

    Attributes:
        seed: the same seed and prompt give the same image, where the model supports seeds; below 2**29.
        stop: cancels the request.
    """

    prompt: str
    seed: int
    provider_data: ProviderData = field(default=NO_PROVIDER_DATA, repr=False)
    stop: StopSignal | None = None


class ImageModel(Protocol):
    """A model that generates images of a fixed size."""

    def generate(self, request: ImageRequest) -> bytes:
        """Return the bytes of an image file. Raises ModelError."""


def kind_of(image: bytes) -> ImageKind:
    """Return the image's format from its first bytes. Raises ModelFailed for anything else."""
    kind = find_image_kind(image)
    if kind is None:
        raise ModelFailed("the image model answered with something other than a PNG, JPEG, GIF or WebP image")
    return kind


def image_of(text: Any) -> bytes:
    """Return the image of a base64 text. Raises ModelFailed for an empty or oversized one."""
    if not isinstance(text, str) or not text:
        raise ModelFailed("the image model answered without an image")
    if len(text) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise ModelFailed(f"the image is over the limit of {MAX_IMAGE_BYTES} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ModelFailed("the image model answered with an image that can't be decoded") from exc
