"""Image files, told by how they begin."""

import re
from typing import NamedTuple


class ImageKind(NamedTuple):
    """A kind of image.

    Attributes:
        suffix: how the name of such a file ends.
    """

    mime_type: str
    suffix: str


BEGINNINGS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), ImageKind("image/png", ".png")),
    (re.compile(rb"\xff\xd8\xff"), ImageKind("image/jpeg", ".jpg")),
    (re.compile(rb"GIF8[79]a"), ImageKind("image/gif", ".gif")),
    # sounds and films begin with RIFF, too
    (re.compile(rb"RIFF....WEBP", re.DOTALL), ImageKind("image/webp", ".webp")),
)


def find_image_kind(data: bytes) -> ImageKind | None:
    """Return which kind of image begins like this, if one does: PNG, JPEG, GIF or WebP."""
    return next((kind for beginning, kind in BEGINNINGS if beginning.match(data)), None)
