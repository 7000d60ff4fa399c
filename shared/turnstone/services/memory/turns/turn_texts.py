"""Texts of a turn's documents and attachments that its request sends as addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.documents import PLAIN_TEXT, GivenDocument, NewDocument, TextDocument
from turnstone.domain.memory.texts.chunking import MARKDOWN
from turnstone.domain.memory.texts.extraction import is_binary

if TYPE_CHECKING:
    from turnstone.domain.turns.turn_settings import TurnDocument


class TurnTexts:
    def __init__(self, read: Callable[[Sequence[TextDocument]], Sequence[GivenDocument]]) -> None:
        """Read documents as insertions into a bank do."""
        self._read = read

    def fetched(self, given: Mapping[str, Sequence[TurnDocument]]) -> dict[str, tuple[TurnDocument, ...]]:
        """Return the documents of each field of the request, with the texts at their addresses, and the texts' types.

        Raises:
            InvalidRequest: an address is forbidden or has no text, or the texts take too long or are too large; its
                location is in the field.
            ReadingUnavailable: this server can't read a document now.
        """
        return {field: self._of_field(field, documents) for field, documents in given.items()}

    def _of_field(self, field: str, documents: Sequence[TurnDocument]) -> tuple[TurnDocument, ...]:
        addressed = [index for index, document in enumerate(documents) if document.address is not None]
        sources = [
            TextDocument(NewDocument(str(index), mime_type=documents[index].mime_type), "", documents[index].address)
            for index in addressed
        ]
        try:
            read = self._read(sources) if sources else []
        except InvalidRequest as wrong:
            raise _in_field(wrong, field, addressed) from wrong
        complete = list(documents)
        for index, found in zip(addressed, read, strict=True):
            mime_type = found.given.new.mime_type
            if found.given.has_headings:
                mime_type = MARKDOWN[0]
            elif is_binary(mime_type):
                mime_type = PLAIN_TEXT
            update = {"content": found.given.text, "mime_type": mime_type, "address": None}
            complete[index] = documents[index].model_copy(update=update)
        return tuple(complete)


def _in_field(wrong: InvalidRequest, field: str, addressed: Sequence[int]) -> InvalidRequest:
    """Return the error with the field and the index of the request in place of those of the sources."""
    _, number, *within = wrong.location
    index = addressed[int(number)]
    before = ".".join(map(str, wrong.location))
    message = str(wrong).removeprefix(f"{before}: ")
    location = (field, index, *within)
    return type(wrong)(f"{'.'.join(map(str, location))}: {message}", location)
