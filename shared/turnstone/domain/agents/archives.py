"""Archival memory of agents: passages in a memory bank, made with the first one and removed with the agent."""

import re
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.memory.banks import Bank, Chunking
from turnstone.domain.memory.documents import PLAIN_TEXT
from turnstone.domain.memory.texts.chunking import document_chunks
from turnstone.domain.values.ids import UUID_TEXT

PASSAGE_TOKENS = 300
PASSAGE_KIND = "passage"
LONGEST_TEXT = 100_000  # characters of a text that is cut into passages
PASSAGES = Chunking(tokens=PASSAGE_TOKENS, overlap=0)  # of a source
NUMBER_DIGITS = 5
IN_SOURCE = re.compile(rf"({UUID_TEXT.pattern})-([0-9a-f]{{{NUMBER_DIGITS}}})")
# longer than any passage, so that each is one chunk
WHOLE = Chunking(tokens=2 * PASSAGE_TOKENS, overlap=0)


class Passage(NamedTuple):
    """A passage of an archival memory, or of a source.

    Attributes:
        score: that of a search, else 0.
        source: the bank of the source, None for a passage that the agent kept.
        file_id: the document of the source, None likewise.
    """

    passage_id: str
    text: str
    created_at: datetime
    score: float = 0.0
    source: Bank | None = None
    file_id: str | None = None


class Position(NamedTuple):
    """The position of a passage in lists: by the order key of its document, then by its number there, from 0."""

    order: str
    number: int


class PassageQuery(NamedTuple):
    """The requested part of the passages, oldest first: directly after `after`, else directly before `before`."""

    limit: int
    after: str | None = None
    before: str | None = None


def id_in_source(position: Position) -> str:
    """Return the id of a passage of a source, which differs from those of passages that agents keep."""
    return f"{position.order}-{position.number:0{NUMBER_DIGITS}x}"


def position_in_source(passage_id: str) -> Position | None:
    """Return the position that is in the id of a passage of a source, None for any other id."""
    found = IN_SOURCE.fullmatch(passage_id)
    return None if found is None else Position(found[1], int(found[2], 16))


def passages_in(text: str) -> tuple[str, ...]:
    """Return the passages of a text, without overlap; none of a blank one."""
    return tuple(chunk.text for chunk in document_chunks("", text, PASSAGES, PLAIN_TEXT) if chunk.text.strip())
