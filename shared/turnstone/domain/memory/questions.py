"""Questions to memory banks, and the chunks found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from turnstone.domain.memory.documents import DocumentChunk

SearchMode = Literal["vector", "keyword", "hybrid"]


class Weighted(NamedTuple):
    """Fuses scores that are divided by their maximum; `alpha` is the weight of vectors, None for the model's best."""

    alpha: float | None = None


class ReciprocalRank(NamedTuple):
    """Fuses ranks: the sum of 1 / (k + rank)."""

    k: float = 60.0


Ranker = Weighted | ReciprocalRank


class BankQuestion(NamedTuple):
    """A question to one bank, or to several as one.

    Attributes:
        vector: of the question; None for keywords alone.
        tokens: the number of the text's tokens by the bank's embedding model; None if it does not count them.
        filters: a parsed filter over the attributes of documents and the metadata of chunks, see `memory/filters`.
        threshold: the least score of a hit.
        max_tokens: of all hits together: the first hit that exceeds it ends the result. None for no limit.
    """

    text: str
    vector: Sequence[float] | None
    mode: SearchMode = "hybrid"
    max_chunks: int = 10
    filters: Any = None
    ranker: Ranker = Weighted()
    threshold: float = 0.0
    max_tokens: int | None = None
    tokens: int | None = None


class Hit(NamedTuple):
    """A found chunk of a bank; its score lies in (0, 1]. Equal scores are in the order of the chunks' ids.

    Attributes:
        attributes: of its document.
    """

    chunk: DocumentChunk
    attributes: Mapping[str, Any]
    score: float
    bank_id: str = ""
