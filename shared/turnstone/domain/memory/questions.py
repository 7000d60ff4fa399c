"""Questions to memory banks, and the chunks found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from turnstone.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from turnstone.domain.memory.documents import DocumentChunk

SearchMode = Literal["vector", "keyword", "hybrid"]
LONGEST_QUESTION = 32_768  # characters; a search of a whole body of 6 MB takes a processor half a minute (measured)


class Weighted(NamedTuple):
    """Fuses scores that are divided by their maximum; `alpha` is the weight of vectors, None for the model's best."""

    alpha: float | None = None


class ReciprocalRank(NamedTuple):
    """Fuses ranks: the sum of 1 / (k + rank)."""

    k: float = 60.0


Ranker = Weighted | ReciprocalRank


class QuestionFields(NamedTuple):
    """Where a request has the parts of its question: the locations that a refusal names."""

    mode: tuple[str, ...] = ("params", "mode")
    ranker: tuple[str, ...] = ("params", "ranker")
    max_chunks: tuple[str, ...] = ("params", "max_chunks")


class BankQuestion(NamedTuple):
    """A question to one bank, or to several as one.

    Attributes:
        vector: of the question; None for keywords alone.
        mode: None for the best one that all of the banks have.
        tokens: the number of the text's tokens by the bank's embedding model; None if it does not count them.
        filters: a parsed filter over the attributes of documents and the metadata of chunks, see `memory/filters`.
        threshold: the least score of a hit.
        max_tokens: of all hits together: the first hit that exceeds it ends the result. None for no limit.
        fields: of the request.
    """

    text: str
    vector: Sequence[float] | None
    mode: SearchMode | None = None
    max_chunks: int = 10
    filters: Any = None
    ranker: Ranker = Weighted()
    threshold: float = 0.0
    max_tokens: int | None = None
    tokens: int | None = None
    fields: QuestionFields = QuestionFields()


class BankQuery(NamedTuple):
    """A query to one bank of any kind.

    Attributes:
        question: with the defaults of searched banks.
        keys: of the values of a bank of keys and values; none for those that the question names.
        entities: from which to walk in a graph bank; none for those that the question names.
        depth: the number of steps of that walk, None for the default.
        given: the names of the parameters in the request.
    """

    question: BankQuestion
    keys: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    depth: int | None = None
    given: frozenset[str] = frozenset()


def check_question(text: str, location: tuple[str | int, ...]) -> None:
    """Raise InvalidRequest, naming the field, for a text that is too long to search for."""
    if len(text) > LONGEST_QUESTION:
        problem = f"must have at most {LONGEST_QUESTION:,} characters, not {len(text):,}"
        raise InvalidRequest(f"{'.'.join(map(str, location))}: {problem}", location)


class Hit(NamedTuple):
    """A found chunk of a bank; its score lies in (0, 1]. Equal scores are in the order of the chunks' ids.

    Attributes:
        attributes: of its document.
    """

    chunk: DocumentChunk
    attributes: Mapping[str, Any]
    score: float
    bank_id: str = ""


def hits_within(max_tokens: int | None, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return the hits before the first one with which they exceed the number of tokens, all for None."""
    kept: list[Hit] = []
    left = max_tokens
    for hit in hits:
        if left is not None:
            left -= hit.chunk.tokens
            if left < 0:
                break
        kept.append(hit)
    return tuple(kept)
