"""Forms: bodies of `multipart/form-data` with one file.

Source: RFC 7578; OpenAI's clients send files so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, NamedTuple

READ_BYTES = 1024 * 1024


class SentFile(NamedTuple):
    """The file of a form, in a temporary file.

    Attributes:
        name: as sent, None if none was.
        media_type: as sent, empty if none was.
    """

    name: str | None
    media_type: str
    size_bytes: int
    content: IO[bytes]

    def parts(self) -> Iterator[bytes]:
        """Yield its bytes from the start."""
        self.content.seek(0)
        while part := self.content.read(READ_BYTES):
            yield part


class SentForm(NamedTuple):
    """A form.

    Attributes:
        fields: texts by name, as sent; without the file.
        digest: hash of fields and file; the boundary has no part in it, because each attempt of a request has another.
    """

    fields: Mapping[str, str]
    file: SentFile
    digest: bytes

    def close(self) -> None:
        """Remove the temporary file."""
        self.file.content.close()
