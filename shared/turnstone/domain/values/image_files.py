"""Image formats, recognised by the first bytes, and addresses that contain their file."""

import re
from base64 import b64encode
from typing import NamedTuple


class ImageKind(NamedTuple):
    """An image format.

    Attributes:
        suffix: the file extension.
    """

    mime_type: str
    suffix: str


BEGINNINGS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), ImageKind("image/png", ".png")),
    (re.compile(rb"\xff\xd8\xff"), ImageKind("image/jpeg", ".jpg")),
    (re.compile(rb"GIF8[79]a"), ImageKind("image/gif", ".gif")),
    # audio and video files begin with RIFF, too
    (re.compile(rb"RIFF....WEBP", re.DOTALL), ImageKind("image/webp", ".webp")),
)


def find_image_kind(data: bytes) -> ImageKind | None:
    """Return the image format of these first bytes, None if unrecognised: PNG, JPEG, GIF or WebP."""
    return next((kind for beginning, kind in BEGINNINGS if beginning.match(data)), None)


def data_url(mime_type: str, body: bytes) -> str:
    """Return the address that contains the file."""
    return f"data:{mime_type};base64,{b64encode(body).decode()}"


def base64_in(address: str) -> str | None:
    """Return the base64 of the file in its address, None for an address of another kind."""
    kind, is_data, encoded = address.partition(";base64,")
    return encoded if is_data and kind.startswith("data:") else None
