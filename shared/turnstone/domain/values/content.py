"""Content of a message: text, images, or a mixture."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from turnstone.domain.values.frozen import Frozen, Many

# JSON none of whose parts ends within a mark, to the same with long texts in place of their marks
Restore = Callable[[Iterable[bytes]], Iterator[bytes]]


class Url(Frozen):
    uri: str


class Image(Frozen):
    """An image by address or by value; `data` is base64."""

    url: Url | None = None
    data: str | None = None


class TextItem(Frozen):
    type: Literal["text"] = "text"
    text: str


class ImageItem(Frozen):
    type: Literal["image"] = "image"
    image: Image


ContentItem = Annotated[TextItem | ImageItem, Field(discriminator="type")]
Content = str | ContentItem | Many[ContentItem]


def items_of(content: Content) -> tuple[TextItem | ImageItem, ...]:
    """Return the content as a sequence of items, from any of its three forms."""
    if isinstance(content, str):
        return (TextItem(text=content),)
    if isinstance(content, tuple):
        return content
    return (content,)


def text_of(content: Content) -> str:
    """Return the text of the content, one line per item, without its images."""
    if isinstance(content, str):
        return content
    return "\n".join(item.text for item in items_of(content) if isinstance(item, TextItem))
