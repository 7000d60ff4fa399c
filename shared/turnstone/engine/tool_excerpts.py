"""Excerpt a tool's answer for moderation: every readable or visible part that its turn would keep."""

from __future__ import annotations

import re
from base64 import b64encode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from turnstone.domain.values.content import Image, ImageItem, TextItem, items_of
from turnstone.domain.values.image_files import find_image_kind

if TYPE_CHECKING:
    from turnstone.domain.tools.tool_runs import ProducedFile
    from turnstone.domain.tools.tools import ToolResponse
    from turnstone.domain.values.content import Content, ContentItem

MOST_BYTES_OF_A_CHARACTER = 4
TEXT_TYPE = re.compile(r"text/|[^;]+[/+](?:json|xml|yaml)\b")


def excerpted(response: ToolResponse, files: Sequence[ProducedFile], max_characters: int) -> Content:
    """Return the answer's content, followed by the texts in its metadata, and its files that are texts or images.

    Args:
        max_characters: the limit for each file; shields may not judge a longer one.
    """
    # the first-level names of metadata are set by this server's adapters
    found = [text for value in (response.metadata or {}).values() for text in _texts_in(value)]
    items: list[ContentItem] = [TextItem(text="\n".join(found))] if found else []
    for file in files:
        # a file may be both, crafted to pass as the form that no shield checks
        if text := _text_of(file, max_characters):
            items.append(TextItem(text=text))
        if find_image_kind(file.body) is not None:
            items.append(ImageItem(image=Image(data=b64encode(file.body).decode())))
    return (*items_of(response.content), *items) if items else response.content


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, inner in value.items():
                yield key
                yield from _texts_in(inner)
        case list() | tuple():
            for inner in value:
                yield from _texts_in(inner)


def _text_of(file: ProducedFile, max_characters: int) -> str:
    """Return the beginning of a text file, recognised by its bytes or, if they deceive, by its type; else nothing."""
    begins = file.body[: max_characters * MOST_BYTES_OF_A_CHARACTER]
    with suppress(UnicodeDecodeError):
        return getincrementaldecoder("utf-8")().decode(begins)[:max_characters]
    if not TEXT_TYPE.match(file.mime_type.lower()):
        return ""
    is_utf_16 = begins.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return begins.decode("utf-16" if is_utf_16 else "latin-1", "replace")[:max_characters]
