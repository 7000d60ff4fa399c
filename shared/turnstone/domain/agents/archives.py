"""Archival memory of agents: passages in a memory bank, made with the first one and removed with the agent."""

from datetime import datetime
from typing import NamedTuple

from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.documents import PLAIN_TEXT
from turnstone.domain.memory.texts.chunking import document_chunks

PASSAGE_TOKENS = 300
PASSAGE_KIND = "passage"
LONGEST_TEXT = 100_000  # characters of a text that is cut into passages
# longer than any passage, so that each is one chunk
WHOLE = Chunking(tokens=2 * PASSAGE_TOKENS, overlap=0)


class Passage(NamedTuple):
    """A passage of an archival memory; `score` is that of a search, else 0."""

    passage_id: str
    text: str
    created_at: datetime
    score: float = 0.0


class PassageQuery(NamedTuple):
    """The requested part of the passages, oldest first: directly after `after`, else directly before `before`."""

    limit: int
    after: str | None = None
    before: str | None = None


def passages_in(text: str) -> tuple[str, ...]:
    """Return the passages of a text, without overlap; none of a blank one."""
    cut = Chunking(tokens=PASSAGE_TOKENS, overlap=0)
    return tuple(chunk.text for chunk in document_chunks("", text, cut, PLAIN_TEXT) if chunk.text.strip())
