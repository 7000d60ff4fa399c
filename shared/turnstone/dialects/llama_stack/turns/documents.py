"""Documents and attachments of a turn's request: texts and images.

Source: the Agents contract of Llama Stack 0.2.x.
"""

from collections.abc import Iterator, Sequence

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.texts.extraction import PDF, WORD, address_of, is_binary
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.values.content import Content, Image, ImageItem, Url, items_of, text_of

TEXT_TYPES = ("application/json", "application/x-ndjson", "application/xml", "application/yaml")
ACCEPTED = f"text/*, image/*, {', '.join((*TEXT_TYPES, PDF, WORD))}"
LONGEST_TYPE = 100


def documents_of(given: Sequence[Attachment], field: str = "documents") -> Iterator[TurnDocument]:
    """Yield the documents of the request's field as the turn keeps them; one at an address has yet to be read.

    Raises:
        Unsupported: a text in the request is of another type.
        InvalidRequest: content that is not of its type.
    """
    for index, document in enumerate(given):
        location = (field, index)
        media_type = document.mime_type.partition(";")[0].strip().lower()
        if media_type.startswith("image/"):
            yield TurnDocument(content=_image(document.content, location), mime_type=media_type)
        elif isinstance(document.content, Url):
            yield TurnDocument(content="", mime_type=media_type, address=document.content.uri)
        elif is_binary(media_type):
            address = address_of(_text(document.content, location), media_type)
            yield TurnDocument(content="", mime_type=media_type, address=address)
        elif media_type.startswith("text/") or media_type in TEXT_TYPES:
            yield TurnDocument(content=_text(document.content, location), mime_type=media_type)
        else:
            message = f"this server takes documents of the types {ACCEPTED}, not {media_type[:LONGEST_TYPE]!r}"
            raise Unsupported(f"{field}.{index}.mime_type: {message}", (*location, "mime_type"))


def is_image(document: TurnDocument) -> bool:
    return document.mime_type.startswith("image/")


def _image(content: Content | Url, location: tuple[str | int, ...]) -> Content:
    if isinstance(content, Url):
        return ImageItem(image=Image(url=content))
    items = items_of(content)
    if isinstance(content, str) or not all(isinstance(item, ImageItem) for item in items):
        raise _wrong(location, "the content of an image is an item of the type image, or its `uri`")
    return items


def _text(content: Content, location: tuple[str | int, ...]) -> str:
    if not isinstance(content, str) and any(isinstance(item, ImageItem) for item in items_of(content)):
        raise _wrong(location, "the content of a text is a text, not an image")
    return text_of(content)


def _wrong(location: tuple[str | int, ...], why: str) -> InvalidRequest:
    return InvalidRequest(f"{location[0]}.{location[1]}.content: {why}", (*location, "content"))
