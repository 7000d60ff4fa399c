"""Image files are recognised by their first bytes, by as many as distinguish them from other files.

Covers: domain/values/image_files
"""

import pytest

from turnstone.domain.values.image_files import ImageKind, find_image_kind


@pytest.mark.parametrize(
    ("beginning", "mime_type", "suffix"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png", ".png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", ".jpg"),
        (b"GIF87a", "image/gif", ".gif"),
        (b"GIF89a", "image/gif", ".gif"),
        (b"RIFF\x0a\x00\x00\x00WEBP", "image/webp", ".webp"),
    ],
)
def test_an_image_is_recognised_by_its_first_bytes(beginning: bytes, mime_type: str, suffix: str) -> None:
    assert find_image_kind(beginning + bytes(20)) == ImageKind(mime_type, suffix)


@pytest.mark.parametrize(
    "data",
    [
        b"RIFF\x0a\x00\x00\x00WAVEfmt ",
        b"RIFF\x0a\x00\x00\x00AVI LIST",
        b"\x89PNG",
        b"GIF8: a story",
        b" \x89PNG\r\n\x1a\n",
        b"<svg>",
        b"",
    ],
)
def test_data_that_begin_nearly_like_an_image_are_none(data: bytes) -> None:
    assert find_image_kind(data) is None
