"""Bodies of forms, as clients send them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

BOUNDARY = "a-boundary"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
OF_FORM = ((b"content-type", FORM_TYPE.encode()),)
FILES = ("file", "data")


class SentPart(NamedTuple):
    """A part of a form: its head, without the line ends after it, and its content."""

    head: str
    content: bytes


def field(name: str, value: str | bytes) -> SentPart:
    return SentPart(
        f'Content-Disposition: form-data; name="{name}"', value.encode() if isinstance(value, str) else value
    )


def file(content: bytes, filename: str = "a.txt", name: str = "file", media_type: str = "text/plain") -> SentPart:
    return SentPart(
        f'Content-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: {media_type}', content
    )


def form(*parts: SentPart, boundary: str = BOUNDARY) -> bytes:
    """Return the body of these parts."""
    sent = (f"--{boundary}\r\n{part.head}\r\n\r\n".encode() + part.content + b"\r\n" for part in parts)
    return b"".join(sent) + f"--{boundary}--\r\n".encode()


def form_of(fields: Mapping[str, str], content: bytes, **of_file: str) -> bytes:
    """Return the body of these fields and a file."""
    return form(*(field(*each) for each in fields.items()), file(content, **of_file))


def cut_at(body: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the body in pieces of these sizes, one after the other, and the rest."""
    for size in sizes:
        yield body[:size]
        body = body[size:]
    yield body


class FormBody(dict[str, Any]):
    """A body that is sent as a form: texts by name, of which those named in `FILES` are the content of a file."""


def encoded(body: Any) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Return the bytes of a body, and the headers that come with them."""
    if isinstance(body, FormBody):
        return encoded_form(body), OF_FORM
    return b"" if body is None else json.dumps(body).encode(), ()


def encoded_form(body: FormBody) -> bytes:
    """Return the bytes of a form; a value that is no text is sent as JSON."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
    contents = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
    return form(
        *(file(content, name=name) if name in FILES else field(name, content) for name, content in contents.items())
    )
