"""Models that make images: what they are asked, and what counts as an image."""

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
    """One question to an image model.

    Attributes:
        seed: the same one makes the same image of the same prompt, where a model takes one; below 2**29.
        stop: tells that nobody wants the image any more.
    """

    prompt: str
    seed: int
    provider_data: ProviderData = field(default=NO_PROVIDER_DATA, repr=False)
    stop: StopSignal | None = None


class ImageModel(Protocol):
    """A model that makes images of a size."""

    def generate(self, request: ImageRequest) -> bytes:
        """Return an image as a file has it. Raises ModelError."""


def kind_of(image: bytes) -> ImageKind:
    """Return what kind of image it is, by how it begins. Raises ModelFailed if it is none."""
    kind = find_image_kind(image)
    if kind is None:
        raise ModelFailed("the image model answered with something other than a PNG, JPEG, GIF or WebP image")
    return kind


def image_of(text: Any) -> bytes:
    """Return what a base64 text holds. Raises ModelFailed if it holds nothing, or more than an image may have."""
    if not isinstance(text, str) or not text:
        raise ModelFailed("the image model answered without an image")
    if len(text) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        raise ModelFailed(f"the image is over the limit of {MAX_IMAGE_BYTES} bytes")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ModelFailed("the image model answered with an image that can't be decoded") from exc
