"""Documents and attachments of a turn's request: texts and images.

Source: the Agents contract of Llama Stack 0.2.x.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Sequence
from urllib.parse import unquote_to_bytes

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.values.content import Content, Image, ImageItem, Url, items_of, text_of

TEXT_TYPES = ("application/json", "application/x-ndjson", "application/xml", "application/yaml")
ACCEPTED = f"text/*, image/*, {', '.join(TEXT_TYPES)}"
FETCHED = ("http", "https")
LONGEST_TYPE = 100


def documents_of(given: Sequence[Attachment], field: str = "documents") -> Iterator[TurnDocument]:
    """Yield the documents of the request's field as the turn keeps them; a text at an address has yet to be fetched.

    Raises:
        Unsupported: of another type, or at an address of another scheme.
        InvalidRequest: content that is not of its type.
    """
    for index, document in enumerate(given):
        location = (field, index)
        media_type = document.mime_type.partition(";")[0].strip().lower()
        if media_type.startswith("image/"):
            yield TurnDocument(content=_image(document.content, location), mime_type=media_type)
        elif media_type.startswith("text/") or media_type in TEXT_TYPES:
            address = _address_of(document.content, location)
            text = "" if address else _text(document.content, location)
            yield TurnDocument(content=text, mime_type=media_type, address=address)
        else:
            message = f"this server takes documents of the types {ACCEPTED}, not {media_type[:LONGEST_TYPE]!r}"
            raise Unsupported(f"{field}.{index}.mime_type: {message}", (*location, "mime_type"))


def is_image(document: TurnDocument) -> bool:
    return document.mime_type.startswith("image/")


def _address_of(content: Content | Url, location: tuple[str | int, ...]) -> str | None:
    """Return the address of a text that is not part of the request, None for one that is."""
    scheme = content.uri.partition(":")[0].lower() if isinstance(content, Url) else ""
    if scheme in ("", "data") or not isinstance(content, Url):
        return None
    if scheme in FETCHED:
        return content.uri
    message = (
        f"a text is fetched from an https address, not from one of {scheme[:LONGEST_TYPE]!r}; send it as `content`"
    )
    raise Unsupported(f"{location[0]}.{location[1]}.content: {message}", (*location, "content"))


def _image(content: Content | Url, location: tuple[str | int, ...]) -> Content:
    if isinstance(content, Url):
        return ImageItem(image=Image(url=content))
    items = items_of(content)
    if isinstance(content, str) or not all(isinstance(item, ImageItem) for item in items):
        raise _wrong(location, "the content of an image is an item of the type image, or its `uri`")
    return items


def _text(content: Content | Url, location: tuple[str | int, ...]) -> Content:
    if isinstance(content, Url):
        return _text_in(content.uri, location)
    if not isinstance(content, str) and any(isinstance(item, ImageItem) for item in items_of(content)):
        raise _wrong(location, "the content of a text is a text, not an image")
    return text_of(content)


def _text_in(uri: str, location: tuple[str | int, ...]) -> str:
    """Return the text of a data URL."""
    head, comma, encoded = uri.partition(":")[2].partition(",")
    try:
        if not comma:
            raise ValueError
        body = unquote_to_bytes(encoded)
        return (b64decode(body, validate=True) if head.lower().endswith(";base64") else body).decode()
    except (ValueError, binascii.Error) as problem:
        raise _wrong(location, "this is no data URL of a text in UTF-8") from problem


def _wrong(location: tuple[str | int, ...], why: str) -> InvalidRequest:
    return InvalidRequest(f"{location[0]}.{location[1]}.content: {why}", (*location, "content"))
